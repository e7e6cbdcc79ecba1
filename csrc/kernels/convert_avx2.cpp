#include "kernels/convert.h"
#include "kernels/convert_frame.h"
#include "kernels/float_planes.h"
#include "kernels/float_rows_avx2.h"
#include "kernels/target_region.h"
#include "kernels/transpose_avx2.h"

#if FASTLOAD_HAS_X86_KERNELS

#include <immintrin.h>

FASTLOAD_BEGIN_TARGET(FASTLOAD_AVX2_FEATURES)
namespace fastload {
namespace {

constexpr std::size_t kBlock = 32;  // pixels of one channel at a time
constexpr std::size_t kFloats = 8;

// The first `count` bytes of a register, or all.
inline void store_bytes(std::uint8_t* output, __m256i bytes, std::size_t count) noexcept {
    if (count >= kBlock) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(output), bytes);
    } else {
        alignas(32) std::uint8_t last[kBlock];
        _mm256_store_si256(reinterpret_cast<__m256i*>(last), bytes);
        std::memcpy(output, last, count);
    }
}

inline __m256i load_bytes(const std::uint8_t* input, std::size_t count) noexcept {
    if (count >= kBlock) return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(input));
    alignas(32) std::uint8_t last[kBlock] = {};
    std::memcpy(last, input, count);
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(last));
}

// The 32 pixels of a run from number i on, in the order of the result. If fewer are left, the rest is undefined.
inline __m256i load_pixels(const std::uint8_t* pixels, std::size_t i, std::size_t count, bool is_mirrored) noexcept {
    const std::size_t left = count - i;
    if (!is_mirrored) return load_bytes(pixels + i, left);
    const __m256i backwards = _mm256_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0,  //
                                               15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    __m256i values;
    if (left >= kBlock) {
        values = load_bytes(pixels + left - kBlock, kBlock);
    } else {
        alignas(32) std::uint8_t last[kBlock] = {};
        std::memcpy(last + kBlock - left, pixels, left);
        values = _mm256_load_si256(reinterpret_cast<const __m256i*>(last));
    }
    return _mm256_shuffle_epi8(_mm256_permute2x128_si256(values, values, 1), backwards);
}

// The bytes of three channels in each of the three registers that 16 of their pixels become: shuffle controls, with -1
// for the bytes of another channel.
struct Interleaving {
    alignas(32) std::int8_t controls[3][3][32];  // [part][channel]

    Interleaving() noexcept {
        for (int part = 0; part < 3; ++part) {
            for (int byte = 0; byte < 32; ++byte) {
                const int element = 16 * part + byte % 16;
                for (int channel = 0; channel < 3; ++channel) {
                    controls[part][channel][byte] = static_cast<std::int8_t>(element % 3 == channel ? element / 3 : -1);
                }
            }
        }
    }

    // Lane k of the result: bytes 16 * part to 16 * part + 15 of the interleaved pixels of the channels' lane k.
    __m256i part(int index, const __m256i (&channels)[3]) const noexcept {
        __m256i bytes = _mm256_setzero_si256();
        for (int channel = 0; channel < 3; ++channel) {
            const __m256i control = _mm256_load_si256(reinterpret_cast<const __m256i*>(controls[index][channel]));
            bytes = _mm256_or_si256(bytes, _mm256_shuffle_epi8(channels[channel], control));
        }
        return bytes;
    }
};

// Arranges the bytes of a run in the order of the result.
class Arranger {
  public:
    explicit Arranger(bool is_mirrored) noexcept : is_mirrored_(is_mirrored) {}

    void arrange_channel(const std::uint8_t* pixels, std::size_t count, std::uint8_t* output) const noexcept {
        for (std::size_t i = 0; i < count; i += kBlock) {
            store_bytes(output + i, load_pixels(pixels, i, count, is_mirrored_), count - i);
        }
    }

    void interleave(const std::uint8_t* const pixels[3], std::size_t count, std::uint8_t* output) const noexcept {
        for (std::size_t i = 0; i < count; i += kBlock) {
            const __m256i channels[3] = {load_pixels(pixels[0], i, count, is_mirrored_),
                                         load_pixels(pixels[1], i, count, is_mirrored_),
                                         load_pixels(pixels[2], i, count, is_mirrored_)};
            const __m256i parts[3] = {interleaving_.part(0, channels), interleaving_.part(1, channels),
                                      interleaving_.part(2, channels)};
            const __m256i blocks[3] = {_mm256_permute2x128_si256(parts[0], parts[1], 0x20),
                                       _mm256_permute2x128_si256(parts[2], parts[0], 0x30),
                                       _mm256_permute2x128_si256(parts[1], parts[2], 0x31)};
            for (std::size_t b = 0; b < 3; ++b) {
                const std::size_t done = 3 * i + kBlock * b;
                if (done < 3 * count) store_bytes(output + done, blocks[b], 3 * count - done);
            }
        }
    }

    bool is_mirrored() const noexcept { return is_mirrored_; }

  private:
    bool is_mirrored_;
    Interleaving interleaving_;
};

// Values of the channels in turn to float32: vector v of the elements takes the constants at v % 3.
class InterleavedNormalizer {
  public:
    explicit InterleavedNormalizer(const Normalization* formulas) noexcept {
        for (std::size_t i = 0; i < kBlockFloats; ++i) {
            const Normalization& formula = formulas[i % 3];
            mean_[i] = formula.mean;
            inverse_std_[i] = formula.inverse_std;
            inverse_std_rest_[i] = formula.inverse_std_rest;
        }
    }

    // Reads whole blocks; any bytes may follow the last value.
    void write(const std::uint8_t* values, std::size_t count, float* output) const noexcept {
        const NormalizationVectors constants[3] = {load(0), load(1), load(2)};
        std::size_t i = 0;
        for (; i + kBlockFloats <= count; i += kBlockFloats) write_block(values + i, constants, output + i);
        if (i == count) return;
        float elements[kBlockFloats];
        write_block(values + i, constants, elements);
        std::memcpy(output + i, elements, (count - i) * sizeof(float));
    }

  private:
    static constexpr std::size_t kBlockFloats = 3 * kFloats;

    NormalizationVectors load(std::size_t v) const noexcept {
        return {_mm256_load_ps(mean_ + kFloats * v), _mm256_load_ps(inverse_std_ + kFloats * v),
                _mm256_load_ps(inverse_std_rest_ + kFloats * v)};
    }

    static void write_block(const std::uint8_t* values, const NormalizationVectors (&constants)[3],
                            float* output) noexcept {
        for (std::size_t v = 0; v < 3; ++v) {
            _mm256_storeu_ps(output + kFloats * v, normalize_eight(values + kFloats * v, constants[v]));
        }
    }

    static __m256 normalize_eight(const std::uint8_t* values, const NormalizationVectors& constants) noexcept {
        const __m256i repeat = _mm256_setr_epi8(0, 0, 0, -1, 1, 1, 1, -1, 2, 2, 2, -1, 3, 3, 3, -1,  //
                                                4, 4, 4, -1, 5, 5, 5, -1, 6, 6, 6, -1, 7, 7, 7, -1);
        long long eight = 0;
        std::memcpy(&eight, values, sizeof eight);
        return normalize(_mm256_shuffle_epi8(_mm256_set1_epi64x(eight), repeat), constants);
    }

    alignas(32) float mean_[kBlockFloats];
    alignas(32) float inverse_std_[kBlockFloats];
    alignas(32) float inverse_std_rest_[kBlockFloats];
};

class ByteWriter {
  public:
    ByteWriter(const ConvertJob& job, void* destination) noexcept
        : arranger_(job.is_mirrored), layout_(job), destination_(static_cast<std::uint8_t*>(destination)) {}

    void write_run(const std::uint8_t* const pixels[3], std::size_t count, std::size_t x,
                   std::size_t y) const noexcept {
        if (layout_.is_channels_last)
            return arranger_.interleave(pixels, count, destination_ + layout_.element(0, x, y));
        for (int channel = 0; channel < 3; ++channel) {
            arranger_.arrange_channel(pixels[channel], count, destination_ + layout_.element(channel, x, y));
        }
    }

  private:
    Arranger arranger_;
    ElementLayout layout_;
    std::uint8_t* destination_;
};

// Writes pixel after pixel.
class FloatPixelWriter {
  public:
    FloatPixelWriter(const ConvertJob& job, void* destination) noexcept
        : arranger_(job.is_mirrored),
          layout_(job),
          normalizer_(job.normalizations),
          destination_(static_cast<float*>(destination)) {}

    void write_run(const std::uint8_t* const pixels[3], std::size_t count, std::size_t x,
                   std::size_t y) const noexcept {
        for (std::size_t i = 0; i < count; i += kPiece) {
            const std::size_t piece = count - i < kPiece ? count - i : kPiece;
            const std::size_t first = arranger_.is_mirrored() ? count - i - piece : i;
            const std::uint8_t* at[3] = {pixels[0] + first, pixels[1] + first, pixels[2] + first};
            std::uint8_t arranged[3 * kPiece];
            arranger_.interleave(at, piece, arranged);
            normalizer_.write(arranged, 3 * piece, destination_ + layout_.element(0, x + i, y));
        }
    }

  private:
    static constexpr std::size_t kPiece = 256;  // pixels that are arranged at a time before they become elements

    Arranger arranger_;
    ElementLayout layout_;
    InterleavedNormalizer normalizer_;
    float* destination_;
};

// Returns false if the table has to be looked up: scalar code is as fast for that.
template <typename Source>
bool convert(const Source& source, const ConvertJob& job, void* destination) noexcept {
    if (job.table != nullptr && job.normalizations == nullptr) return false;
    convert_padding_scalar({source.width, source.height}, job, destination);
    if (job.table == nullptr) {
        write_pixels(ByteWriter(job, destination), source, job, strip_to_padded_rows);
    } else if (are_float_planes(job)) {
        write_pixels(FloatPlanes<ChannelWriter>(job, destination), source, job, strip_to_padded_rows);
    } else {
        write_pixels(FloatPixelWriter(job, destination), source, job, strip_to_padded_rows);
    }
    return true;
}

}  // namespace

void convert_rows_avx2(const PlanarImageView& source, const ConvertJob& job, void* destination) noexcept {
    if (!convert(source, job, destination)) convert_rows_scalar(source, job, destination);
}

void convert_strips_avx2(const StripImageView& source, const ConvertJob& job, void* destination) noexcept {
    if (!convert(source, job, destination)) convert_strips_scalar(source, job, destination);
}

}  // namespace fastload
FASTLOAD_END_TARGET

#endif

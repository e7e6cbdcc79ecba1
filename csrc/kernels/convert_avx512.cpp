#include "kernels/convert.h"
#include "kernels/convert_frame.h"
#include "kernels/float_planes.h"
#include "kernels/float_rows_avx512.h"
#include "kernels/target_region.h"
#include "kernels/transpose_avx2.h"

#if FASTLOAD_HAS_X86_KERNELS

#include <immintrin.h>

FASTLOAD_BEGIN_TARGET(FASTLOAD_AVX512_FEATURES)
namespace fastload {
namespace {

// Note [tables in registers]
// A table of 256 bytes is four registers, and vpermi2b looks up 64 values in two of them. An element of several bytes
// is that many tables, one for each byte: looked up separately, then interleaved by unpacking in 128-bit lanes. Pixels
// are brought into the order in which unpacking gives whole registers of neighbouring elements.

constexpr std::size_t kPixels = 64;  // of one channel, at a time

template <int kBytes>
struct ElementTables {
    alignas(64) std::uint8_t bytes[3][kBytes][256];  // [channel][byte of the element][value]

    explicit ElementTables(const void* table) noexcept {
        const auto* from = static_cast<const std::uint8_t*>(table);
        for (int channel = 0; channel < 3; ++channel) {
            for (int value = 0; value < 256; ++value) {
                for (int byte = 0; byte < kBytes; ++byte) bytes[channel][byte][value] = *from++;
            }
        }
    }

    void look_up(int channel, __m512i values, __m512i (&elements)[kBytes]) const noexcept {
        const __mmask64 is_high = _mm512_movepi8_mask(values);
        __m512i found[kBytes];
        for (int byte = 0; byte < kBytes; ++byte) {
            const std::uint8_t* table = bytes[channel][byte];
            const __m512i low = _mm512_permutex2var_epi8(_mm512_load_si512(table), values,  //
                                                         _mm512_load_si512(table + 64));
            const __m512i high = _mm512_permutex2var_epi8(_mm512_load_si512(table + 128), values,  //
                                                          _mm512_load_si512(table + 192));
            found[byte] = _mm512_mask_blend_epi8(is_high, low, high);
        }
        if constexpr (kBytes == 1) {
            elements[0] = found[0];
        } else if constexpr (kBytes == 2) {
            elements[0] = _mm512_unpacklo_epi8(found[0], found[1]);
            elements[1] = _mm512_unpackhi_epi8(found[0], found[1]);
        } else {
            const __m512i a = _mm512_unpacklo_epi8(found[0], found[1]);
            const __m512i b = _mm512_unpackhi_epi8(found[0], found[1]);
            const __m512i c = _mm512_unpacklo_epi8(found[2], found[3]);
            const __m512i d = _mm512_unpackhi_epi8(found[2], found[3]);
            elements[0] = _mm512_unpacklo_epi16(a, c);
            elements[1] = _mm512_unpackhi_epi16(a, c);
            elements[2] = _mm512_unpacklo_epi16(b, d);
            elements[3] = _mm512_unpackhi_epi16(b, d);
        }
    }
};

// The value itself.
struct SameBytes {
    void look_up(int /*channel*/, __m512i values, __m512i (&elements)[1]) const noexcept { elements[0] = values; }
};

inline __mmask64 lowest_bytes(std::size_t count) noexcept { return count >= 64 ? ~0ULL : (1ULL << count) - 1; }

// The first `count` bytes of a register, or all.
inline void store_bytes(std::uint8_t* output, __m512i bytes, std::size_t count) noexcept {
    if (count >= 64) {
        _mm512_storeu_si512(output, bytes);
    } else {
        _mm512_mask_storeu_epi8(output, lowest_bytes(count), bytes);
    }
}

// Three registers of elements to 3 * 64 bytes of pixels.
template <int kBytes>
struct PixelInterleaver {
    alignas(64) std::uint8_t indices[3][64];  // byte of channel 0 or 2, or 64 more for channel 1
    __mmask64 is_third[3];                    // set for channel 2

    PixelInterleaver() noexcept {
        for (int i = 0; i < 3; ++i) {
            is_third[i] = 0;
            for (int byte = 0; byte < 64; ++byte) {
                const int element = (64 * i + byte) / kBytes;
                const int channel = element % 3;
                indices[i][byte] =
                    static_cast<std::uint8_t>(element / 3 * kBytes + byte % kBytes + (channel == 1 ? 64 : 0));
                if (channel == 2) is_third[i] |= 1ULL << byte;
            }
        }
    }

    __m512i interleave(int part, __m512i first, __m512i second, __m512i third) const noexcept {
        const __m512i index = _mm512_load_si512(indices[part]);
        return _mm512_mask_permutexvar_epi8(_mm512_permutex2var_epi8(first, index, second), is_third[part], index,
                                            third);
    }
};

// Writes runs of pixels of one row. `Elements` turns values of a channel into elements.
template <typename Elements, int kBytes, bool kIsChannelsLast>
class Writer {
  public:
    Writer(const Elements& elements, const ConvertJob& job, void* destination) noexcept
        : elements_(elements),
          layout_(job),
          is_mirrored_(job.is_mirrored),
          destination_(static_cast<std::uint8_t*>(destination)) {
        constexpr int kLaneElements = 16 / kBytes;
        for (int i = 0; i < 64; ++i) {
            const int part = i % 16 / kLaneElements;
            order_[i] = static_cast<std::uint8_t>(part * (64 / kBytes) + i / 16 * kLaneElements + i % kLaneElements);
        }
    }

    void write_run(const std::uint8_t* const pixels[3], std::size_t count, std::size_t x,
                   std::size_t y) const noexcept {
        if constexpr (kIsChannelsLast) {
            std::uint8_t* output = destination_ + kBytes * layout_.element(0, x, y);
            for (std::size_t i = 0; i < count; i += kPixels) {
                write_pixels(pixels, i, count, output + 3 * kBytes * i);
            }
        } else {
            const std::size_t pixel = layout_.element(0, x, y);
            for (int channel = 0; channel < 3; ++channel) {
                std::uint8_t* output =
                    destination_ + kBytes * (static_cast<std::size_t>(channel) * layout_.plane + pixel);
                write_channel(channel, pixels[channel], count, output);
            }
        }
    }

  private:
    // The 64 pixels of a run from number i on, or the rest of it, in the order that look_up needs.
    __m512i load(const std::uint8_t* pixels, std::size_t i, std::size_t count) const noexcept {
        const __m512i order = _mm512_load_si512(order_);
        const std::size_t left = count - i;
        if (!is_mirrored_) {
            const __m512i values = left >= kPixels ? _mm512_loadu_si512(pixels + i)
                                                   : _mm512_maskz_loadu_epi8(lowest_bytes(left), pixels + i);
            return _mm512_permutexvar_epi8(order, values);
        }
        const std::size_t loaded = left >= kPixels ? kPixels : left;
        const __m512i values = _mm512_maskz_loadu_epi8(lowest_bytes(loaded), pixels + left - loaded);
        const __m512i last = _mm512_set1_epi8(static_cast<char>(loaded - 1));
        return _mm512_permutexvar_epi8(_mm512_sub_epi8(last, order), values);
    }

    void write_channel(int channel, const std::uint8_t* pixels, std::size_t count,
                       std::uint8_t* output) const noexcept {
        for (std::size_t i = 0; i < count; i += kPixels) {
            __m512i elements[kBytes];
            elements_.look_up(channel, load(pixels, i, count), elements);
            for (std::size_t part = 0; part < kBytes; ++part) {
                const std::size_t done = kBytes * i + 64 * part;
                if (done >= kBytes * count) break;
                store_bytes(output + done, elements[part], kBytes * count - done);
            }
        }
    }

    void write_pixels(const std::uint8_t* const pixels[3], std::size_t i, std::size_t count,
                      std::uint8_t* output) const noexcept {
        __m512i elements[3][kBytes];
        for (int channel = 0; channel < 3; ++channel) {
            elements_.look_up(channel, load(pixels[channel], i, count), elements[channel]);
        }
        std::size_t left = 3 * kBytes * (count - i);
        for (int part = 0; part < kBytes; ++part) {
            for (int third = 0; third < 3; ++third) {
                store_bytes(output,
                            interleaver_.interleave(third, elements[0][part], elements[1][part], elements[2][part]),
                            left);
                if (left <= 64) return;
                left -= 64;
                output += 64;
            }
        }
    }

    const Elements& elements_;
    ElementLayout layout_;
    bool is_mirrored_;
    std::uint8_t* destination_;
    alignas(64) std::uint8_t order_[64];
    PixelInterleaver<kBytes> interleaver_;
};

template <int kBytes, typename Elements, typename Source>
void convert_with(const Elements& elements, const Source& source, const ConvertJob& job, void* destination) noexcept {
    if (job.is_channels_last) {
        write_pixels(Writer<Elements, kBytes, true>(elements, job, destination), source, job, strip_to_padded_rows);
    } else {
        write_pixels(Writer<Elements, kBytes, false>(elements, job, destination), source, job, strip_to_padded_rows);
    }
}

// Elements of up to 4 bytes.
template <typename Source>
void convert(const Source& source, const ConvertJob& job, void* destination) noexcept {
    convert_padding_scalar({source.width, source.height}, job, destination);
    if (are_float_planes(job)) {
        write_pixels(FloatPlanes<ChannelWriter>(job, destination), source, job, strip_to_padded_rows);
    } else if (job.table == nullptr) {
        convert_with<1>(SameBytes{}, source, job, destination);
    } else if (job.element_size_bytes == 1) {
        convert_with<1>(ElementTables<1>(job.table), source, job, destination);
    } else if (job.element_size_bytes == 2) {
        convert_with<2>(ElementTables<2>(job.table), source, job, destination);
    } else {
        convert_with<4>(ElementTables<4>(job.table), source, job, destination);
    }
}

// A formula, if there is one, is faster than four tables.
bool is_left_to_avx2(const ConvertJob& job) noexcept {
    return job.element_size_bytes > 4 || (job.normalizations != nullptr && job.is_channels_last);
}

}  // namespace

void convert_rows_avx512(const PlanarImageView& source, const ConvertJob& job, void* destination) noexcept {
    if (is_left_to_avx2(job)) return convert_rows_avx2(source, job, destination);
    convert(source, job, destination);
}

void convert_strips_avx512(const StripImageView& source, const ConvertJob& job, void* destination) noexcept {
    if (is_left_to_avx2(job)) return convert_strips_avx2(source, job, destination);
    convert(source, job, destination);
}

}  // namespace fastload
FASTLOAD_END_TARGET

#endif

// Converts pixels to float32 by a formula. Only for files that are compiled for the same instructions.
#pragma once

#include "kernels/target_region.h"

#if FASTLOAD_HAS_X86_KERNELS

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/convert.h"
#include "kernels/float_planes.h"

FASTLOAD_BEGIN_TARGET(FASTLOAD_AVX2_FEATURES)
namespace fastload {
namespace {

struct NormalizationVectors {
    __m256 mean;
    __m256 inverse_std;
    __m256 inverse_std_rest;
};

// Does what Normalization::apply does, for values of three bytes each.
inline __m256 normalize(__m256i repeated, const NormalizationVectors& constants) noexcept {
    const __m256 numbers = _mm256_cvtepi32_ps(repeated);
    const __m256 fractions = _mm256_fmadd_ps(numbers, _mm256_set1_ps(Normalization::kUnit), numbers);
    const __m256 centered = _mm256_sub_ps(fractions, constants.mean);
    return _mm256_fmadd_ps(centered, constants.inverse_std, _mm256_mul_ps(centered, constants.inverse_std_rest));
}

// See float_planes.h.
class ChannelWriter {
  public:
    ChannelWriter(const Normalization& formula, bool is_mirrored) noexcept
        : formula_(formula), is_mirrored_(is_mirrored) {
        for (int byte = 0; byte < 64; ++byte) {
            const int pixel = is_mirrored ? 15 - byte / 4 : byte / 4;
            repeat_[byte] = static_cast<std::int8_t>(byte % 4 == 3 ? -1 : pixel);
        }
    }

    template <bool kIsStreamed>
    void write(const std::uint8_t* pixels, std::size_t count, float* output) const noexcept {
        const NormalizationVectors constants = {_mm256_set1_ps(formula_.mean), _mm256_set1_ps(formula_.inverse_std),
                                                _mm256_set1_ps(formula_.inverse_std_rest)};
        std::size_t i = 0;
        for (; i + kPixels <= count; i += kPixels) {
            write_pixels<kIsStreamed>(pixels + (is_mirrored_ ? count - i - kPixels : i), constants, output + i);
        }
        if (i < count) write_some(pixels + (is_mirrored_ ? 0 : i), count - i, constants, output + i);
    }

  private:
    static constexpr std::size_t kPixels = 16;

    template <bool kIsStreamed>
    void write_pixels(const std::uint8_t* pixels, const NormalizationVectors& constants, float* output) const noexcept {
        const __m256i values = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(pixels)));
        const auto* repeat = reinterpret_cast<const __m256i*>(repeat_);
        const __m256 left = normalize(_mm256_shuffle_epi8(values, _mm256_load_si256(repeat)), constants);
        const __m256 right = normalize(_mm256_shuffle_epi8(values, _mm256_load_si256(repeat + 1)), constants);
        if constexpr (kIsStreamed) {
            _mm256_stream_ps(output, left);
            _mm256_stream_ps(output + 8, right);
        } else {
            _mm256_storeu_ps(output, left);
            _mm256_storeu_ps(output + 8, right);
        }
    }

    // Handles fewer than `kPixels`.
    void write_some(const std::uint8_t* pixels, std::size_t count, const NormalizationVectors& constants,
                    float* output) const noexcept {
        std::uint8_t values[kPixels] = {};
        std::memcpy(values + (is_mirrored_ ? kPixels - count : 0), pixels, count);
        float elements[kPixels];
        write_pixels<false>(values, constants, elements);
        std::memcpy(output, elements, count * sizeof(float));
    }

    Normalization formula_;
    bool is_mirrored_;
    alignas(32) std::int8_t repeat_[64];
};

}  // namespace
}  // namespace fastload
FASTLOAD_END_TARGET

#endif

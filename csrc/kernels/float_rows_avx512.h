// Converts pixels to float32 by a formula. Only for files that are compiled for the same instructions.
#pragma once

#include "kernels/target_region.h"

#if FASTLOAD_HAS_X86_KERNELS

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/convert.h"
#include "kernels/float_planes.h"

FASTLOAD_BEGIN_TARGET(FASTLOAD_AVX512_FEATURES)
namespace fastload {
namespace {

// See float_planes.h. A byte that is repeated four times is value / 255 in units of 2^-32, without the fraction. The
// bits after the 24 digits of a float32 begin with the byte's first one, so the number has to be rounded up; a
// conversion that rounds up gives the number of Note [fractions of 255] in these units.
class ChannelWriter {
  public:
    ChannelWriter(const Normalization& formula, bool is_mirrored) noexcept
        : mean_(formula.mean * 256.0F),
          inverse_std_(formula.inverse_std / 256.0F),
          inverse_std_rest_(formula.inverse_std_rest / 256.0F),
          is_mirrored_(is_mirrored) {
        for (int byte = 0; byte < 64; ++byte) {
            repeat_[byte] = static_cast<std::uint8_t>(is_mirrored ? 15 - byte / 4 : byte / 4);
        }
    }

    template <bool kIsStreamed>
    void write(const std::uint8_t* pixels, std::size_t count, float* output) const noexcept {
        const __m512i repeat = _mm512_load_si512(repeat_);
        std::size_t i = 0;
        for (; i + kPixels <= count; i += kPixels) {
            const auto* from = reinterpret_cast<const __m128i*>(pixels + (is_mirrored_ ? count - i - kPixels : i));
            const __m512 elements = normalize(_mm_loadu_si128(from), repeat);
            if constexpr (kIsStreamed) {
                _mm512_stream_ps(output + i, elements);
            } else {
                _mm512_storeu_ps(output + i, elements);
            }
        }
        if (i < count) write_some(pixels + (is_mirrored_ ? 0 : i), count - i, output + i);
    }

  private:
    static constexpr std::size_t kPixels = 16;

    // Handles fewer than `kPixels`.
    void write_some(const std::uint8_t* pixels, std::size_t count, float* output) const noexcept {
        const auto lanes = static_cast<__mmask16>((1U << count) - 1);
        // In a mirrored row the last one is byte count - 1, not byte 15.
        const auto missing = static_cast<char>(is_mirrored_ ? kPixels - count : 0);
        const __m512i repeat = _mm512_sub_epi8(_mm512_load_si512(repeat_), _mm512_set1_epi8(missing));
        _mm512_mask_storeu_ps(output, lanes, normalize(_mm_maskz_loadu_epi8(lanes, pixels), repeat));
    }

    __m512 normalize(__m128i values, __m512i repeat) const noexcept {
        const __m512i repeated = _mm512_shuffle_epi8(_mm512_broadcast_i32x4(values), repeat);
        const __m512 fractions = _mm512_cvt_roundepu32_ps(repeated, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
        const __m512 centered = _mm512_sub_ps(fractions, _mm512_set1_ps(mean_));
        return _mm512_fmadd_ps(centered, _mm512_set1_ps(inverse_std_),
                               _mm512_mul_ps(centered, _mm512_set1_ps(inverse_std_rest_)));
    }

    float mean_;
    float inverse_std_;
    float inverse_std_rest_;
    bool is_mirrored_;
    alignas(64) std::uint8_t repeat_[64];
};

}  // namespace
}  // namespace fastload
FASTLOAD_END_TARGET

#endif

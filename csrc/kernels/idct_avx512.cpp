#include "kernels/idct_avx512.h"

#if FASTLOAD_HAS_X86_KERNELS

FASTLOAD_BEGIN_TARGET(FASTLOAD_AVX512_FEATURES)

namespace fastload {

void inverse_dct_avx512(std::int16_t* coefficients, const std::uint16_t* quantization,
                        std::uint8_t* strip_block) noexcept {
    const BlockWords block = load_words(coefficients);
    _mm512_store_si512(coefficients, _mm512_setzero_si512());
    _mm512_store_si512(coefficients + 32, _mm512_setzero_si512());
    const __m512i samples = inverse_dct_samples<kZigzagOrder>(block, load_words(quantization), load_uniforms());
    _mm512_store_si512(strip_block, samples);
}

}  // namespace fastload

FASTLOAD_END_TARGET

#endif

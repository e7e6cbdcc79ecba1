#include "kernels/idct_avx2.h"

#if FASTLOAD_HAS_X86_KERNELS

FASTLOAD_BEGIN_TARGET(FASTLOAD_AVX2_FEATURES)

namespace fastload {
namespace {

__attribute__((noinline, cold)) bool has_row0_only(const std::int16_t* coefficients) {
    for (int i = 0; i < 64; i += 16) {
        if (_mm256_testz_si256(load(coefficients + i), load(kOutsideOfRow0.bits + i)) == 0) return false;
    }
    return true;
}

}  // namespace

void inverse_dct_avx2(std::int16_t* coefficients, const std::uint16_t* quantization,
                      std::uint8_t* strip_block) noexcept {
    const __m256i words[4] = {load(coefficients), load(coefficients + 16), load(coefficients + 32),
                              load(coefficients + 48)};
    __m256i products[4];
    const bool is_large = dequantize(words, quantization, products);
    if (__builtin_expect(is_large, 0) && has_row0_only(coefficients)) wrap_row0(products);
    for (int i = 0; i < 64; i += 16) {
        _mm256_store_si256(reinterpret_cast<__m256i*>(coefficients + i), _mm256_setzero_si256());
    }
    transform_to_strip(from_zigzag(products), strip_block);
}

}  // namespace fastload

FASTLOAD_END_TARGET

#endif

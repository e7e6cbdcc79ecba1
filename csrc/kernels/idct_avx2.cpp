#include "kernels/idct_avx2.h"

#if FASTLOAD_HAS_X86_KERNELS

namespace fastload {
namespace {

FASTLOAD_BEGIN_TARGET(FASTLOAD_AVX2_FEATURES)

__attribute__((noinline, cold)) bool has_row0_only(const std::int16_t* coefficients) {
    for (int i = 0; i < 64; i += 16) {
        if (_mm256_testz_si256(load(coefficients + i), load(kOutsideOfRow0.bits + i)) == 0) return false;
    }
    return true;
}

FASTLOAD_END_TARGET

}  // namespace

FASTLOAD_BEGIN_TARGET(FASTLOAD_AVX2_FEATURES)

void inverse_dct_avx2(std::int16_t* coefficients, const std::uint16_t* quantization,
                      std::uint8_t* strip_block) noexcept {
    __m256i products[4];
    for (int i = 0; i < 4; ++i) {
        products[i] = _mm256_mullo_epi16(load(coefficients + 16 * i), load(quantization + 16 * i));
    }
    // See Note [short first pass]. All of row 0 is among the first 32 coefficients.
    const bool is_large = is_any_beyond_limit(either(move_by_limit(products[0]), move_by_limit(products[1])));
    if (__builtin_expect(is_large, 0) && has_row0_only(coefficients)) {
        products[0] = wrap_to_14_bits(products[0]);
        products[1] = wrap_to_14_bits(products[1]);
    }
    for (int i = 0; i < 64; i += 16) {
        _mm256_store_si256(reinterpret_cast<__m256i*>(coefficients + i), _mm256_setzero_si256());
    }
    transform_to_strip(from_zigzag(products), strip_block);
}

FASTLOAD_END_TARGET

}  // namespace fastload

#endif

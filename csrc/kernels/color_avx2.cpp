// All but the products is done in bytes, in registers of 32 pixels. The amount that a channel adds to Y is split into
// two parts of the same sign, so that two saturating additions saturate as one addition of the sum would:
//   R = Y + Cr + round(0.402 Cr), B = Y + Cb + round(0.772 Cb).
// G is Y + M - Cr with M = round(-0.34414 Cb + 0.28586 Cr), a byte: the positive and negative parts of M - Cr.
#include "kernels/target_region.h"

#if FASTLOAD_HAS_X86_KERNELS

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/color.h"

FASTLOAD_BEGIN_TARGET(FASTLOAD_AVX2_FEATURES)

namespace fastload {
namespace {

struct Pixels {
    __m256i first;
    __m256i second;
    __m256i third;
};

// ((-22554 cb + 18734 cr + 2^15) >> 16) + 128 of 16 pixels, whose unsigned bytes are pairs (cb, cr). The weights are
// -88 * 256 - 26 and 73 * 256 + 46. The constant is the sum of 2^7 for rounding, 128 * 256, and the effect of
// subtracting 128 from cb and cr: 128 * (88 - 73) - 128 * (46 - 26) / 256 = 1910.
inline __m256i mix_green(__m256i pairs) {
    const __m256i high = _mm256_maddubs_epi16(pairs, _mm256_set1_epi16(73 * 256 + (-88 & 0xFF)));
    const __m256i low = _mm256_maddubs_epi16(pairs, _mm256_set1_epi16(46 * 256 + (-26 & 0xFF)));
    const __m256i constant = _mm256_set1_epi16(static_cast<std::int16_t>(128 * 256 + 128 + 1910 - 65536));
    const __m256i sum = _mm256_add_epi16(_mm256_add_epi16(high, constant), _mm256_srai_epi16(low, 8));
    return _mm256_srli_epi16(sum, 8);
}

// (52690 cr + 2^16) >> 17 is (26345 cr + 2^15) >> 16; 13173 * 4 is near enough to 52690 for all 256 values of cr.
inline __m256i red_part(__m256i cr) { return _mm256_mulhrs_epi16(cr, _mm256_set1_epi16(13173)); }

// 116130 = 65536 + 2 * 25297
inline __m256i blue_part(__m256i cb) { return _mm256_mulhrs_epi16(cb, _mm256_set1_epi16(25297)); }

inline __m256i high_bytes(__m256i words) { return _mm256_srai_epi16(words, 8); }

inline __m256i low_bytes(__m256i words) { return _mm256_srai_epi16(_mm256_slli_epi16(words, 8), 8); }

inline Pixels convert(__m256i y, __m256i cb, __m256i cr) {
    // To and from signed bytes.
    const __m256i flip = _mm256_set1_epi8(-128);
    const __m256i pairs_low = _mm256_unpacklo_epi8(cb, cr);
    const __m256i pairs_high = _mm256_unpackhi_epi8(cb, cr);
    const __m256i mixed = _mm256_packus_epi16(mix_green(pairs_low), mix_green(pairs_high));
    const __m256i brighter = _mm256_subs_epu8(mixed, cr);
    const __m256i darker = _mm256_subs_epu8(cr, mixed);
    const __m256i green = _mm256_subs_epu8(_mm256_adds_epu8(y, brighter), darker);

    const __m256i centred_low = _mm256_xor_si256(pairs_low, flip);
    const __m256i centred_high = _mm256_xor_si256(pairs_high, flip);
    const __m256i centred_y = _mm256_xor_si256(y, flip);
    const __m256i red_rest = _mm256_packs_epi16(red_part(high_bytes(centred_low)), red_part(high_bytes(centred_high)));
    const __m256i red = _mm256_adds_epi8(_mm256_adds_epi8(centred_y, _mm256_xor_si256(cr, flip)), red_rest);
    const __m256i blue_rest = _mm256_packs_epi16(blue_part(low_bytes(centred_low)), blue_part(low_bytes(centred_high)));
    const __m256i blue = _mm256_adds_epi8(_mm256_adds_epi8(centred_y, _mm256_xor_si256(cb, flip)), blue_rest);
    return {_mm256_xor_si256(red, flip), green, _mm256_xor_si256(blue, flip)};
}

inline __m256i load(const std::uint8_t* bytes) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes)); }

inline void store(std::uint8_t* bytes, __m256i value) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(bytes), value); }

inline __m256i load_some(const std::uint8_t* bytes, __m256i mask) {
    return _mm256_maskload_epi64(reinterpret_cast<const long long*>(bytes), mask);
}

inline void store_some(std::uint8_t* bytes, __m256i mask, __m256i value) {
    _mm256_maskstore_epi64(reinterpret_cast<long long*>(bytes), mask, value);
}

}  // namespace

void ycc_to_rgb_avx2(std::uint8_t* y_to_r, std::uint8_t* cb_to_g, std::uint8_t* cr_to_b, std::size_t count) noexcept {
    std::size_t i = 0;
    for (; i + 32 <= count; i += 32) {
        const Pixels pixels = convert(load(y_to_r + i), load(cb_to_g + i), load(cr_to_b + i));
        store(y_to_r + i, pixels.first);
        store(cb_to_g + i, pixels.second);
        store(cr_to_b + i, pixels.third);
    }
    if (i == count) return;
    const __m256i left = _mm256_set1_epi64x(static_cast<long long>(count - i));
    const __m256i mask = _mm256_cmpgt_epi64(left, _mm256_setr_epi64x(0, 8, 16, 24));
    const Pixels pixels =
        convert(load_some(y_to_r + i, mask), load_some(cb_to_g + i, mask), load_some(cr_to_b + i, mask));
    store_some(y_to_r + i, mask, pixels.first);
    store_some(cb_to_g + i, mask, pixels.second);
    store_some(cr_to_b + i, mask, pixels.third);
}

}  // namespace fastload

FASTLOAD_END_TARGET

#endif

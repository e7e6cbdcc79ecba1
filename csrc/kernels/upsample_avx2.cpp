// See upsample.h for the formulas. Weights of 3 to 1 are two averages in bytes, one rounded up and one rounded down:
// (3 a + b + 1) >> 2 = (a + ((a + b + 1) >> 1)) >> 1 and (3 a + b + 2) >> 2 = (a + ((a + b) >> 1) + 1) >> 1.
#include "kernels/target_region.h"

#if FASTLOAD_HAS_X86_KERNELS

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/upsample.h"

namespace fastload {
namespace {

constexpr std::size_t kColumnBytes = 8;

FASTLOAD_BEGIN_TARGET(FASTLOAD_AVX2_FEATURES)

inline __m256i load(const std::uint8_t* bytes) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes)); }

inline void store(std::uint8_t* bytes, __m256i value) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(bytes), value); }

inline __m256i average_down(__m256i a, __m256i b) {
    const __m256i odd = _mm256_and_si256(_mm256_xor_si256(a, b), _mm256_set1_epi8(1));
    return _mm256_sub_epi8(_mm256_avg_epu8(a, b), odd);
}

// (3 near + far + 1) >> 2
inline __m256i mix_bias1(__m256i near, __m256i far) { return average_down(near, _mm256_avg_epu8(near, far)); }

// (3 near + far + 2) >> 2
inline __m256i mix_bias2(__m256i near, __m256i far) { return _mm256_avg_epu8(near, average_down(near, far)); }

// Four columns to eight.
inline void upsample_columns(const std::uint8_t* strip, std::uint8_t* out) {
    const __m256i near = load(strip);
    const __m256i even = mix_bias1(near, load(strip - kColumnBytes));
    const __m256i odd = mix_bias2(near, load(strip + kColumnBytes));
    const __m256i columns02 = _mm256_unpacklo_epi64(even, odd);
    const __m256i columns13 = _mm256_unpackhi_epi64(even, odd);
    store(out, _mm256_permute2x128_si256(columns02, columns13, 0x20));
    store(out + 32, _mm256_permute2x128_si256(columns02, columns13, 0x31));
}

// Four columns to four of each output strip.
inline void upsample_rows(const StripNeighbours& strips, std::uint8_t* upper, std::uint8_t* lower, std::size_t byte) {
    const __m256i near = load(strips.current + byte);
    const __m256i row_above =
        _mm256_or_si256(_mm256_slli_epi64(near, 8), _mm256_srli_epi64(load(strips.above + byte), 56));
    const __m256i row_below =
        _mm256_or_si256(_mm256_srli_epi64(near, 8), _mm256_slli_epi64(load(strips.below + byte), 56));
    const __m256i even = mix_bias1(near, row_above);
    const __m256i odd = mix_bias2(near, row_below);
    const __m256i columns02 = _mm256_unpacklo_epi8(even, odd);
    const __m256i columns13 = _mm256_unpackhi_epi8(even, odd);
    store(upper + byte, _mm256_unpacklo_epi64(columns02, columns13));
    store(lower + byte, _mm256_unpackhi_epi64(columns02, columns13));
}

// The sums 3 * row + neighbouring row of two columns, for even and for odd output rows. Each is 2 too large; four times
// that is the 8 that the left neighbour's rounding adds.
struct ColumnSums {
    __m256i even;
    __m256i odd;
};

inline __m256i load_words(const std::uint8_t* columns) {
    return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(columns)));
}

inline ColumnSums sum_columns(const StripNeighbours& strips, std::ptrdiff_t byte) {
    const __m256i near = load_words(strips.current + byte);
    const __m256i row_above = _mm256_alignr_epi8(near, load_words(strips.above + byte), 14);
    const __m256i row_below = _mm256_alignr_epi8(load_words(strips.below + byte), near, 2);
    const __m256i tripled =
        _mm256_add_epi16(_mm256_add_epi16(near, near), _mm256_add_epi16(near, _mm256_set1_epi16(2)));
    return {_mm256_add_epi16(tripled, row_above), _mm256_add_epi16(tripled, row_below)};
}

// Even and odd rows of each column, shifted right by 4, take turns in the result.
inline __m256i interleave_rows(__m256i even, __m256i odd) {
    const __m256i high_bytes = _mm256_set1_epi16(-256);
    return _mm256_or_si256(_mm256_srli_epi16(even, 4), _mm256_and_si256(_mm256_slli_epi16(odd, 4), high_bytes));
}

inline __m256i tripled(__m256i sums) { return _mm256_add_epi16(_mm256_add_epi16(sums, sums), sums); }

// Two columns to four of each output strip. `left` and `right` are the sums of the columns one to the left and one to
// the right.
inline void mix_columns(const ColumnSums& left, const ColumnSums& right, std::uint8_t* upper, std::uint8_t* lower) {
    const __m256i minus_one = _mm256_set1_epi16(-1);
    const __m256i even = tripled(_mm256_permute2x128_si256(left.even, right.even, 0x21));
    const __m256i odd = tripled(_mm256_permute2x128_si256(left.odd, right.odd, 0x21));
    const __m256i even_columns = interleave_rows(_mm256_add_epi16(even, left.even), _mm256_add_epi16(odd, left.odd));
    const __m256i odd_columns = interleave_rows(_mm256_add_epi16(even, _mm256_add_epi16(right.even, minus_one)),
                                                _mm256_add_epi16(odd, _mm256_add_epi16(right.odd, minus_one)));
    store(upper, _mm256_unpacklo_epi64(even_columns, odd_columns));
    store(lower, _mm256_unpackhi_epi64(even_columns, odd_columns));
}

}  // namespace

// A remainder at the end is computed again together with the columns before it.

void upsample_h2v1_avx2(const std::uint8_t* strip, std::uint8_t* out, std::size_t columns) noexcept {
    if (columns < 4) return upsample_h2v1_scalar(strip, out, columns);
    const std::size_t last = kColumnBytes * (columns - 4);
    for (std::size_t byte = 0; byte < last; byte += 32) upsample_columns(strip + byte, out + 2 * byte);
    upsample_columns(strip + last, out + 2 * last);
}

void upsample_h1v2_avx2(const StripNeighbours& strips, std::uint8_t* upper, std::uint8_t* lower,
                        std::size_t columns) noexcept {
    if (columns < 4) return upsample_h1v2_scalar(strips, upper, lower, columns);
    const std::size_t last = kColumnBytes * (columns - 4);
    for (std::size_t byte = 0; byte < last; byte += 32) upsample_rows(strips, upper, lower, byte);
    upsample_rows(strips, upper, lower, last);
}

void upsample_h2v2_avx2(const StripNeighbours& strips, std::uint8_t* upper, std::uint8_t* lower,
                        std::size_t columns) noexcept {
    if (columns < 2) return upsample_h2v2_scalar(strips, upper, lower, columns);
    ColumnSums left = sum_columns(strips, -8);
    for (std::size_t byte = 0; byte + 8 < 8 * columns; byte += 16) {
        const ColumnSums right = sum_columns(strips, static_cast<std::ptrdiff_t>(byte) + 8);
        mix_columns(left, right, upper + 2 * byte, lower + 2 * byte);
        left = right;
    }
    if (columns % 2 == 0) return;
    const auto last = static_cast<std::ptrdiff_t>(8 * (columns - 2));
    mix_columns(sum_columns(strips, last - 8), sum_columns(strips, last + 8), upper + 2 * last, lower + 2 * last);
}

}  // namespace fastload

FASTLOAD_END_TARGET

#endif

// The inverse DCT of one block in registers. Only for files that are compiled for the same instructions.
//
// See idct_scalar.cpp for the algorithm and idct_weights.h for its form here. A register holds one output of eight
// lanes in 32 bits. The lanes of a pass are in the order 0 4 2 6 | 1 7 5 3, so that the pairs of the next pass are
// double words that lie in one half.
#pragma once

#include "kernels/target_region.h"

#if FASTLOAD_HAS_X86_KERNELS

#include <immintrin.h>

#include <cstdint>

#include "kernels/idct.h"
#include "kernels/idct_weights.h"

FASTLOAD_BEGIN_TARGET(FASTLOAD_AVX2_FEATURES)
namespace fastload {
namespace {

constexpr int kLanes[8] = {0, 4, 2, 6, 1, 7, 5, 3};

// Chunks of eight coefficients in zigzag order, one in each half of a register. The zigzag order is symmetric under a
// rotation by 180 degrees, so rows r and 7 - r need mirrored chunks, and all registers hold chunks c and 7 - c.
constexpr int kChunkPairs[8][2] = {{0, 7}, {7, 0}, {1, 6}, {6, 1}, {2, 5}, {5, 2}, {3, 4}, {4, 3}};

// Byte shuffles that bring the coefficients of one row in each half, in the order of kLanes, out of the chunks.
struct RowShuffle {
    alignas(32) std::uint8_t bytes[8][32] = {};

    constexpr RowShuffle(int low_row, int high_row) {
        for (int pair = 0; pair < 8; ++pair) {
            for (int i = 0; i < 32; ++i) {
                const int row = i < 16 ? low_row : high_row;
                const int position = kZigzagPositions.of[8 * row + kLanes[i % 16 / 2]];
                const bool is_here = position / 8 == kChunkPairs[pair][i / 16];
                bytes[pair][i] = static_cast<std::uint8_t>(is_here ? position % 8 * 2 + i % 2 : 0x80);
            }
        }
    }
};
constexpr RowShuffle kRows0And7(0, 7);
constexpr RowShuffle kRows6And1(6, 1);
constexpr RowShuffle kRows2And5(2, 5);
constexpr RowShuffle kRows4And3(4, 3);

// Pairs of the inputs of a pass, lane after lane.
struct Inputs {
    __m256i pairs04, pairs26, pairs17, pairs53;
};

struct Sums {
    __m256i outputs[8];
};

inline __m256i load(const void* bytes) { return _mm256_load_si256(static_cast<const __m256i*>(bytes)); }

inline __m256i swap_halves(__m256i value) { return _mm256_permute4x64_epi64(value, 0x4E); }

inline __m256i multiply(__m256i pairs, WeightPair weights) {
    return _mm256_madd_epi16(pairs, _mm256_set1_epi32(weights.second * 65536 + (weights.first & 0xFFFF)));
}

// 2^13 times the sum or difference of a pair, wrapped to 16 bits before the factor.
inline __m256i wrapped_sum(__m256i pairs, int second_weight) {
    const __m256i exact = multiply(pairs, {8192, second_weight});
    return _mm256_srai_epi32(_mm256_slli_epi32(exact, 3), 3);
}

inline Sums transform(const Inputs& in, __m256i rounding) {
    const __m256i sum = _mm256_add_epi32(wrapped_sum(in.pairs04, 8192), rounding);
    const __m256i difference = _mm256_add_epi32(wrapped_sum(in.pairs04, -8192), rounding);
    const __m256i rotated2 = multiply(in.pairs26, kRotated2);
    const __m256i rotated3 = multiply(in.pairs26, kRotated3);
    const __m256i even0 = _mm256_add_epi32(sum, rotated3);
    const __m256i even1 = _mm256_add_epi32(difference, rotated2);
    const __m256i even2 = _mm256_sub_epi32(difference, rotated2);
    const __m256i even3 = _mm256_sub_epi32(sum, rotated3);

    const __m256i sums15_37 = _mm256_add_epi16(in.pairs17, in.pairs53);
    const __m256i z3 = multiply(sums15_37, kZ3);
    const __m256i z4 = multiply(sums15_37, kZ4);
    const __m256i odd0 = _mm256_add_epi32(multiply(in.pairs17, kOdd0), z4);
    const __m256i odd1 = _mm256_add_epi32(multiply(in.pairs53, kOdd1), z3);
    const __m256i odd2 = _mm256_add_epi32(multiply(in.pairs53, kOdd2), z4);
    const __m256i odd3 = _mm256_add_epi32(multiply(in.pairs17, kOdd3), z3);
    return {{_mm256_add_epi32(even0, odd0), _mm256_add_epi32(even1, odd1), _mm256_add_epi32(even2, odd2),
             _mm256_add_epi32(even3, odd3), _mm256_sub_epi32(even3, odd3), _mm256_sub_epi32(even2, odd2),
             _mm256_sub_epi32(even1, odd1), _mm256_sub_epi32(even0, odd0)}};
}

// Four lanes of outputs 2 i and 2 i + 1 in each half, saturated to 16 bits.
template <int kShift>
inline __m256i shift_and_pack(const Sums& sums, int i) {
    return _mm256_packs_epi32(_mm256_srai_epi32(sums.outputs[2 * i], kShift),
                              _mm256_srai_epi32(sums.outputs[2 * i + 1], kShift));
}

inline __m256i pick(const RowShuffle& row, int pair, __m256i chunks) {
    return _mm256_shuffle_epi8(chunks, load(row.bytes[pair]));
}

inline __m256i either(__m256i a, __m256i b) { return _mm256_or_si256(a, b); }

// `products` are the chunks 0 1 | 2 3 | 4 5 | 6 7.
inline Inputs from_zigzag(const __m256i* products) {
    const __m256i chunks07 = _mm256_blend_epi32(products[0], products[3], 0xF0);
    const __m256i chunks61 = _mm256_blend_epi32(products[3], products[0], 0xF0);
    const __m256i chunks25 = _mm256_blend_epi32(products[1], products[2], 0xF0);
    const __m256i chunks43 = _mm256_blend_epi32(products[2], products[1], 0xF0);
    const __m256i chunks70 = swap_halves(chunks07);
    const __m256i chunks16 = swap_halves(chunks61);
    const __m256i chunks52 = swap_halves(chunks25);
    const __m256i chunks34 = swap_halves(chunks43);

    const __m256i rows07 =
        either(either(pick(kRows0And7, 0, chunks07), pick(kRows0And7, 2, chunks16)), pick(kRows0And7, 6, chunks34));
    const __m256i rows61 = either(either(either(pick(kRows6And1, 1, chunks70), pick(kRows6And1, 3, chunks61)),
                                         either(pick(kRows6And1, 4, chunks25), pick(kRows6And1, 5, chunks52))),
                                  pick(kRows6And1, 7, chunks43));
    const __m256i rows25 = either(either(either(pick(kRows2And5, 0, chunks07), pick(kRows2And5, 2, chunks16)),
                                         either(pick(kRows2And5, 4, chunks25), pick(kRows2And5, 5, chunks52))),
                                  pick(kRows2And5, 6, chunks34));
    const __m256i rows43 = either(either(either(pick(kRows4And3, 2, chunks16), pick(kRows4And3, 3, chunks61)),
                                         either(pick(kRows4And3, 4, chunks25), pick(kRows4And3, 5, chunks52))),
                                  pick(kRows4And3, 7, chunks43));

    const __m256i rows01 = _mm256_blend_epi32(rows07, rows61, 0xF0);
    const __m256i rows47 = _mm256_blend_epi32(rows43, rows07, 0xF0);
    const __m256i rows63 = _mm256_blend_epi32(rows61, rows43, 0xF0);
    const __m256i pairs04_17_low = _mm256_unpacklo_epi16(rows01, rows47);
    const __m256i pairs04_17_high = _mm256_unpackhi_epi16(rows01, rows47);
    const __m256i pairs26_53_low = _mm256_unpacklo_epi16(rows25, rows63);
    const __m256i pairs26_53_high = _mm256_unpackhi_epi16(rows25, rows63);
    return {_mm256_permute2x128_si256(pairs04_17_low, pairs04_17_high, 0x20),
            _mm256_permute2x128_si256(pairs26_53_low, pairs26_53_high, 0x20),
            _mm256_permute2x128_si256(pairs04_17_low, pairs04_17_high, 0x31),
            _mm256_permute2x128_si256(pairs26_53_low, pairs26_53_high, 0x31)};
}

inline __m256i even_double_words(__m256i a, __m256i b) {
    return _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0x88));
}

inline __m256i odd_double_words(__m256i a, __m256i b) {
    return _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0xDD));
}

// The double words of pairs, of outputs 0 1, 2 3, 4 5 and 6 7, to the pairs of lanes 0..7.
inline Inputs transpose(__m256i rows01, __m256i rows23, __m256i rows45, __m256i rows67) {
    const __m256i pairs04_17_low = even_double_words(rows01, rows23);
    const __m256i pairs04_17_high = even_double_words(rows45, rows67);
    const __m256i pairs26_53_low = odd_double_words(rows01, rows23);
    const __m256i pairs26_53_high = odd_double_words(rows45, rows67);
    return {_mm256_permute2x128_si256(pairs04_17_low, pairs04_17_high, 0x20),
            _mm256_permute2x128_si256(pairs26_53_low, pairs26_53_high, 0x20),
            _mm256_permute2x128_si256(pairs04_17_low, pairs04_17_high, 0x31),
            _mm256_permute2x128_si256(pairs26_53_low, pairs26_53_high, 0x31)};
}

inline __m256i wrap_to_14_bits(__m256i value) { return _mm256_srai_epi16(_mm256_slli_epi16(value, 2), 2); }

// Four columns of the strip from their words, two columns in each.
inline void store_columns(__m256i columns01, __m256i columns23, std::uint8_t* strip) {
    const __m256i packed = _mm256_packs_epi16(columns01, columns23);
    const __m256i ordered = _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_store_si256(reinterpret_cast<__m256i*>(strip), _mm256_xor_si256(ordered, _mm256_set1_epi8(-128)));
}

// See Note [short first pass].
inline __m256i move_by_limit(__m256i words) { return _mm256_add_epi16(words, _mm256_set1_epi16(8192)); }
inline bool is_any_beyond_limit(__m256i moved) { return _mm256_testz_si256(moved, _mm256_set1_epi16(-16384)) == 0; }

// Makes the products of coefficients in zigzag order, sixteen in a register. Returns whether one of them may need
// wrap_row0(), if none is outside of row 0: all of that row is among the first 32.
inline bool dequantize(const __m256i* words, const std::uint16_t* quantization, __m256i* products) {
    for (int i = 0; i < 4; ++i) products[i] = _mm256_mullo_epi16(words[i], load(quantization + 16 * i));
    return is_any_beyond_limit(either(move_by_limit(products[0]), move_by_limit(products[1])));
}

inline void wrap_row0(__m256i* products) {
    products[0] = wrap_to_14_bits(products[0]);
    products[1] = wrap_to_14_bits(products[1]);
}

// Writes the 64 samples of a block from its products: pairs of rows, the columns in the order of kLanes.
inline void transform_to_strip(const Inputs& products, std::uint8_t* strip_block) {
    const Sums first = transform(products, _mm256_set1_epi32(1 << 10));
    const Inputs middle = transpose(shift_and_pack<kPass1Shift>(first, 0), shift_and_pack<kPass1Shift>(first, 1),
                                    shift_and_pack<kPass1Shift>(first, 2), shift_and_pack<kPass1Shift>(first, 3));
    const Sums second = transform(middle, _mm256_set1_epi32(1 << 17));
    store_columns(shift_and_pack<kPass2Shift>(second, 0), shift_and_pack<kPass2Shift>(second, 1), strip_block);
    store_columns(shift_and_pack<kPass2Shift>(second, 2), shift_and_pack<kPass2Shift>(second, 3), strip_block + 32);
}

}  // namespace
}  // namespace fastload
FASTLOAD_END_TARGET

#endif

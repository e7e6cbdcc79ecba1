// The inverse DCT of one block in registers. Only for files that are compiled for the same instructions.
//
// See idct_scalar.cpp for the algorithm and idct_weights.h for its form here. A 512-bit register holds 16 sums: two
// outputs of eight lanes each, [out0 | out2] for example, so that a transform is six multiplications. The permutations
// out of zigzag order and of the transposition are one two-source permute for each register of inputs.
#pragma once

#include "kernels/target_region.h"

#if FASTLOAD_HAS_X86_KERNELS

#include <immintrin.h>

#include <cstdint>

#include "kernels/idct.h"
#include "kernels/idct_weights.h"

FASTLOAD_BEGIN_TARGET(FASTLOAD_AVX512_FEATURES)
namespace fastload {
namespace {

struct alignas(64) Words {
    std::int16_t values[32] = {};

    constexpr Words(WeightPair low, WeightPair high) {
        for (int i = 0; i < 32; i += 2) {
            const WeightPair& pair = i < 16 ? low : high;
            values[i] = static_cast<std::int16_t>(pair.first);
            values[i + 1] = static_cast<std::int16_t>(pair.second);
        }
    }
    constexpr explicit Words(WeightPair both) : Words(both, both) {}
    constexpr Words() = default;
};

constexpr WeightPair negated(WeightPair pair) { return {-pair.first, -pair.second}; }

constexpr Words kSumAndDifference({1, 1}, {1, -1});
constexpr Words kTimes8192({8192, 0});
constexpr Words kRotated(kRotated3, negated(kRotated2));
constexpr Words kRounding1({1 << 10, 0});
constexpr Words kRounding2({0, 2});
constexpr Words kLimit({8192, 8192});
constexpr Words kBeyondLimit({-16384, -16384});
constexpr Words kSampleCentre({-32640, -32640});
constexpr Words kZ4Twice(kZ4);
constexpr Words kZ3Twice(kZ3);
constexpr Words kOdd02(kOdd0, kOdd2);
constexpr Words kOdd31(kOdd3, kOdd1);

// Four registers of pairs of inputs, lane after lane: [in0 in4 | in0 in4], [in2 in6 | in2 in6], [in1 in7 | in5 in3] and
// [in5 in3 | in1 in7].
constexpr int kFrequencies[4][2][2] = {{{0, 4}, {0, 4}}, {{2, 6}, {2, 6}}, {{1, 7}, {5, 3}}, {{5, 3}, {1, 7}}};

// The second pass finds the first one's outputs in the two registers that pack() makes: one from [out0 | out2] and
// [out3 | out1], the other from [out7 | out5] and [out4 | out6].
constexpr int kOutputs[2][2][2] = {{{0, 2}, {3, 1}}, {{7, 5}, {4, 6}}};

struct PackedWords {
    std::uint8_t of[8][8] = {};  // [output][lane]
    constexpr PackedWords() {
        for (int i = 0; i < 64; ++i) {
            const int quarter = i % 32 / 8;  // pack() takes four words of each source for a quarter of its result
            of[kOutputs[i / 32][i % 8 / 4][quarter / 2]][quarter % 2 * 4 + i % 4] = static_cast<std::uint8_t>(i);
        }
    }
};
constexpr PackedWords kPackedWords;

struct Permutation {
    Words indices[4];
};

constexpr Permutation make_transposition() {
    Permutation transposition;
    for (int i = 0; i < 4; ++i) {
        for (int word = 0; word < 32; ++word) {
            const int column = kFrequencies[i][word / 16][word % 2];
            transposition.indices[i].values[word] = kPackedWords.of[word % 16 / 2][column];
        }
    }
    return transposition;
}
constexpr Permutation kTransposition = make_transposition();

// The positions of a block's coefficients in two registers: in zigzag order, or even zigzag positions in the first
// register and odd positions in the second.
struct BlockOrder {
    bool is_split = false;
    Permutation to_rows;       // for the first pass
    Words outside_of_row0[2];  // all ones

    constexpr explicit BlockOrder(bool is_split_order) : is_split(is_split_order) {
        for (int i = 0; i < 4; ++i) {
            for (int word = 0; word < 32; ++word) {
                const int row = kFrequencies[i][word / 16][word % 2];
                to_rows.indices[i].values[word] = place(kZigzagPositions.of[8 * row + word % 16 / 2]);
            }
        }
        // All words are written: GCC 12 treats a vector as zeros if the initialiser of a constant leaves some words
        // out.
        for (int position = 0; position < 64; ++position) {
            const int word = place(position);
            outside_of_row0[word / 32].values[word % 32] = kNaturalOrder[position] < 8 ? 0 : -1;
        }
    }

  private:
    constexpr std::int16_t place(int position) const {
        return static_cast<std::int16_t>(is_split ? position / 2 + position % 2 * 32 : position);
    }
};
constexpr BlockOrder kZigzagOrder(false);
constexpr BlockOrder kSplitOrder(true);

// The high words of two registers of sums; in each, the one of the smaller output comes first.
struct HighWords {
    Words indices;
    constexpr explicit HighWords(bool is_smaller_first) {
        for (int i = 0; i < 32; ++i) {
            const int sum = is_smaller_first ? i : i ^ 8;
            indices.values[i] = static_cast<std::int16_t>(2 * sum + 1);
        }
    }
};
constexpr HighWords kHighWords(true);
constexpr HighWords kSwappedHighWords(false);

inline __m512i load(const Words& words) { return _mm512_load_si512(words.values); }

struct Inputs {
    __m512i pairs04, pairs26, pairs17_53, pairs53_17;
};

struct Sums {
    __m512i out02, out31, out75, out46;
};

inline Inputs permute(const Permutation& permutation, __m512i low, __m512i high) {
    return {_mm512_permutex2var_epi16(low, load(permutation.indices[0]), high),
            _mm512_permutex2var_epi16(low, load(permutation.indices[1]), high),
            _mm512_permutex2var_epi16(low, load(permutation.indices[2]), high),
            _mm512_permutex2var_epi16(low, load(permutation.indices[3]), high)};
}

inline Sums transform(const Inputs& in, __m512i rounding) {
    // The second product takes the low 16 bits of the sums, which makes them wrap.
    const __m512i exact = _mm512_madd_epi16(in.pairs04, load(kSumAndDifference));
    const __m512i wrapped = _mm512_madd_epi16(exact, load(kTimes8192));
    const __m512i sum_difference = _mm512_add_epi32(wrapped, rounding);
    const __m512i rotated = _mm512_madd_epi16(in.pairs26, load(kRotated));
    const __m512i even02 = _mm512_add_epi32(sum_difference, rotated);
    const __m512i even31 = _mm512_sub_epi32(sum_difference, rotated);

    const __m512i sums15_37 = _mm512_add_epi16(in.pairs17_53, in.pairs53_17);
    const __m512i odd02 =
        _mm512_add_epi32(_mm512_madd_epi16(sums15_37, load(kZ4Twice)), _mm512_madd_epi16(in.pairs17_53, load(kOdd02)));
    const __m512i odd31 =
        _mm512_add_epi32(_mm512_madd_epi16(sums15_37, load(kZ3Twice)), _mm512_madd_epi16(in.pairs17_53, load(kOdd31)));
    return {_mm512_add_epi32(even02, odd02), _mm512_add_epi32(even31, odd31), _mm512_sub_epi32(even02, odd02),
            _mm512_sub_epi32(even31, odd31)};
}

// The constants of a transform, each of which is one number in all lanes.
struct Uniforms {
    __m512i limit, beyond_limit, rounding1, rounding2, sample_centre;
};

inline Uniforms load_uniforms() {
    return {load(kLimit), load(kBeyondLimit), load(kRounding1), load(kRounding2), load(kSampleCentre)};
}

// The coefficients or quantization steps of a block.
struct BlockWords {
    __m512i low, high;
};

inline BlockWords load_words(const void* words) {
    const auto* const bytes = static_cast<const char*>(words);
    return {_mm512_load_si512(bytes), _mm512_load_si512(bytes + 64)};
}

__attribute__((noinline, cold)) bool has_row0_only(const BlockOrder& order, __m512i low, __m512i high) {
    return (_mm512_test_epi16_mask(low, load(order.outside_of_row0[0])) |
            _mm512_test_epi16_mask(high, load(order.outside_of_row0[1]))) == 0;
}

inline __m512i wrap_to_14_bits(__m512i value) { return _mm512_srai_epi16(_mm512_slli_epi16(value, 2), 2); }

// The 64 samples of a block, in the order of a strip. Coefficients and steps are in kOrder.
template <const BlockOrder& kOrder>
inline __m512i inverse_dct_samples(const BlockWords& coefficients, const BlockWords& steps, const Uniforms& uniforms) {
    __m512i low = _mm512_mullo_epi16(coefficients.low, steps.low);
    __m512i high = _mm512_mullo_epi16(coefficients.high, steps.high);
    // See Note [short first pass]. In zigzag order all of row 0 is among the first 32 coefficients.
    __m512i moved = _mm512_add_epi16(low, uniforms.limit);
    if (kOrder.is_split) moved = _mm512_or_si512(moved, _mm512_add_epi16(high, uniforms.limit));
    const bool is_large = _mm512_test_epi16_mask(moved, uniforms.beyond_limit) != 0;
    if (__builtin_expect(is_large, 0) && has_row0_only(kOrder, coefficients.low, coefficients.high)) {
        low = wrap_to_14_bits(low);
        if (kOrder.is_split) high = wrap_to_14_bits(high);
    }

    const Sums first = transform(permute(kOrder.to_rows, low, high), uniforms.rounding1);
    const __m512i packed_low =
        _mm512_packs_epi32(_mm512_srai_epi32(first.out02, kPass1Shift), _mm512_srai_epi32(first.out31, kPass1Shift));
    const __m512i packed_high =
        _mm512_packs_epi32(_mm512_srai_epi32(first.out75, kPass1Shift), _mm512_srai_epi32(first.out46, kPass1Shift));

    const Sums second = transform(permute(kTransposition, packed_low, packed_high), uniforms.rounding2);
    // To shift by 16, take the high words; then shift by the rest.
    const __m512i even = _mm512_permutex2var_epi16(second.out02, load(kHighWords.indices), second.out46);
    const __m512i odd = _mm512_permutex2var_epi16(second.out31, load(kSwappedHighWords.indices), second.out75);
    const __m512i samples =
        _mm512_packs_epi16(_mm512_srai_epi16(even, kPass2Shift - 16), _mm512_srai_epi16(odd, kPass2Shift - 16));
    return _mm512_xor_si512(samples, uniforms.sample_centre);
}

}  // namespace
}  // namespace fastload
FASTLOAD_END_TARGET

#endif

// The algorithm is the 12-multiplication one of C. Loeffler, A. Ligtenberg and G. Moschytz, "Practical Fast 1-D DCT
// Algorithms with 11 Multiplications" (ICASSP 1989), with constants scaled by 2^13, and its rotations written out as
// sums of two products. libjpeg-turbo's vector code regroups it in the same way; this is exact, because nothing is
// rounded in between.
//
// Bit budget: inputs fit 16 bits. The even part is at most 32768 * (4433 + 15137 - 4433) + 32768 * 2^13 < 0.77 * 2^30,
// the odd part at most 32768 * (4177 + 20995 + 6436 + 9633) < 1.26 * 2^30; their sum with the rounding term is below
// 2.12e9 < 2^31, so 32-bit sums never overflow.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "kernels/idct.h"
#include "kernels/idct_weights.h"

// GCC's vectoriser of straight-line code would gather the permuted coefficients element by element.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-slp-vectorize")
#endif

namespace fastload {
namespace {

using Matrix = std::int16_t[8][8];

inline std::int16_t wrap16(std::int32_t value) { return static_cast<std::int16_t>(value); }

inline std::int16_t saturate16(std::int32_t value) {
    return static_cast<std::int16_t>(std::clamp(value, std::int32_t{INT16_MIN}, std::int32_t{INT16_MAX}));
}

// Note [no saturation needed]
// If the processor has no saturation instruction that compilers find, saturating takes up to a third of a transform's
// time. A one-dimensional transform has no weight above 1.3871 * 2^13 = 11363. If the absolute values of a block's
// dequantised coefficients add up to at most S, the first pass gives at most (11363 S + 1024) / 2^11, and the second
// pass at most 11363 / 2^18 times the sum of a row of the first. With S = 5900 that is 32736 and below 1421: both fit
// 16 bits.
constexpr std::int32_t kLargestPlainSum = 5900;

// Eight one-dimensional transforms side by side, from in[k][lane] to out[k][lane], rounded and shifted right. Every
// product is one of two 16-bit numbers and nothing branches, so compilers vectorise the loop for any processor.
template <int kShift, bool kSaturates>
inline void transform(const Matrix& in, Matrix& out) {
    constexpr std::int32_t kRounding = std::int32_t{1} << (kShift - 1);
    for (int lane = 0; lane < 8; ++lane) {
        const std::int16_t in0 = in[0][lane];
        const std::int16_t in1 = in[1][lane];
        const std::int16_t in2 = in[2][lane];
        const std::int16_t in3 = in[3][lane];
        const std::int16_t in4 = in[4][lane];
        const std::int16_t in5 = in[5][lane];
        const std::int16_t in6 = in[6][lane];
        const std::int16_t in7 = in[7][lane];

        const std::int32_t sum = wrap16(in0 + in4) * 8192 + kRounding;
        const std::int32_t difference = wrap16(in0 - in4) * 8192 + kRounding;
        const std::int32_t rotated2 = in2 * k0_541 + in6 * (k0_541 - k1_847);
        const std::int32_t rotated3 = in2 * (k0_541 + k0_765) + in6 * k0_541;
        const std::int32_t even0 = sum + rotated3;
        const std::int32_t even1 = difference + rotated2;
        const std::int32_t even2 = difference - rotated2;
        const std::int32_t even3 = sum - rotated3;

        const std::int16_t sum37 = wrap16(in3 + in7);
        const std::int16_t sum15 = wrap16(in1 + in5);
        const std::int32_t z3 = sum37 * (k1_175 - k1_961) + sum15 * k1_175;
        const std::int32_t z4 = sum37 * k1_175 + sum15 * (k1_175 - k0_390);
        const std::int32_t odd0 = in1 * (k1_501 - k0_899) + in7 * -k0_899 + z4;
        const std::int32_t odd1 = in3 * (k3_072 - k2_562) + in5 * -k2_562 + z3;
        const std::int32_t odd2 = in5 * (k2_053 - k2_562) + in3 * -k2_562 + z4;
        const std::int32_t odd3 = in7 * (k0_298 - k0_899) + in1 * -k0_899 + z3;

        const auto store = [&out, lane](int k, std::int32_t value) {
            out[k][lane] = kSaturates ? saturate16(value >> kShift) : wrap16(value >> kShift);
        };
        store(0, even0 + odd0);
        store(7, even0 - odd0);
        store(1, even1 + odd1);
        store(6, even1 - odd1);
        store(2, even2 + odd2);
        store(5, even2 - odd2);
        store(3, even3 + odd3);
        store(4, even3 - odd3);
    }
}

inline void transpose(const Matrix& in, Matrix& out) {
    for (int i = 0; i < 8; ++i) {
        for (int k = 0; k < 8; ++k) out[k][i] = in[i][k];
    }
}

// `input` is [row][column].
template <bool kSaturates>
inline void inverse(const Matrix& input, bool has_row0_only, std::uint8_t* strip_block) {
    Matrix middle;
    if (has_row0_only) {
        for (int column = 0; column < 8; ++column) middle[0][column] = wrap16(input[0][column] * 4);
        for (int row = 1; row < 8; ++row) std::memcpy(middle[row], middle[0], sizeof(middle[0]));
    } else {
        transform<kPass1Shift, kSaturates>(input, middle);
    }
    Matrix turned;
    transpose(middle, turned);
    Matrix samples;  // [column][row], the order of a strip
    transform<kPass2Shift, kSaturates>(turned, samples);
    const std::int16_t* const values = &samples[0][0];
    for (int i = 0; i < 64; ++i) {
        const std::int16_t low = std::max(values[i], std::int16_t{-128});
        strip_block[i] = static_cast<std::uint8_t>(std::min(low, std::int16_t{127}) + 128);
    }
}

// Out of line: inlined, it would double the code that every block runs through.
__attribute__((noinline)) void inverse_saturating(const Matrix& input, bool has_row0_only, std::uint8_t* strip_block) {
    inverse<true>(input, has_row0_only, strip_block);
}

}  // namespace

void inverse_dct_scalar(std::int16_t* coefficients, const std::uint16_t* quantization,
                        std::uint8_t* strip_block) noexcept {
    std::int16_t products[64];
    std::uint16_t below_row0 = 0;
    std::int32_t absolute_sum = 0;
    for (int i = 0; i < 64; ++i) {
        const auto coefficient = static_cast<std::uint16_t>(coefficients[i]);
        // Unsigned, so that it wraps without overflowing an int.
        products[i] = static_cast<std::int16_t>(static_cast<std::uint32_t>(coefficient) * quantization[i]);
        below_row0 = static_cast<std::uint16_t>(below_row0 | (coefficient & kOutsideOfRow0.bits[i]));
    }
    clear_block(coefficients);
    for (int i = 0; i < 64; ++i) absolute_sum += std::abs(std::int32_t{products[i]});
    Matrix input;
    std::int16_t* const natural = &input[0][0];
// Unrolled, so that the positions are constants: 64 loads and stores instead of a loop over a table.
#pragma GCC unroll 64
    for (int i = 0; i < 64; ++i) natural[kNaturalOrder[i]] = products[i];
    if (__builtin_expect(absolute_sum > kLargestPlainSum, 0)) {
        inverse_saturating(input, below_row0 == 0, strip_block);
    } else {
        inverse<false>(input, below_row0 == 0, strip_block);
    }
}

}  // namespace fastload

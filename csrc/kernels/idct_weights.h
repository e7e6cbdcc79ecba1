// Constants and coefficient positions that all variants of the inverse DCT share.
#pragma once

#include <cstdint>

#include "kernels/zigzag.h"

namespace fastload {

// Each constant is named after its value times 2^13, rounded.
constexpr int k0_298 = 2446;
constexpr int k0_390 = 3196;
constexpr int k0_541 = 4433;
constexpr int k0_765 = 6270;
constexpr int k0_899 = 7373;
constexpr int k1_175 = 9633;
constexpr int k1_501 = 12299;
constexpr int k1_847 = 15137;
constexpr int k1_961 = 16069;
constexpr int k2_053 = 16819;
constexpr int k2_562 = 20995;
constexpr int k3_072 = 25172;

constexpr int kPass1Shift = 11;
constexpr int kPass2Shift = 18;

// A product of two 16-bit weights and inputs.
struct WeightPair {
    int first;
    int second;
};

// The one-dimensional transform as dot products of pairs of inputs: vector units multiply 16-bit numbers this way. With
// sum = in0 + in4, difference = in0 - in4, (sum15, sum37) = (in1 + in5, in7 + in3):
//   out0, out7 = sum + R3 +- odd0        odd0 = kOdd0 . (in1, in7) + kZ4 . (sum15, sum37)
//   out1, out6 = difference + R2 +- odd1  odd1 = kOdd1 . (in5, in3) + kZ3 . (sum15, sum37)
//   out2, out5 = difference - R2 +- odd2  odd2 = kOdd2 . (in5, in3) + kZ4 . (sum15, sum37)
//   out3, out4 = sum - R3 +- odd3        odd3 = kOdd3 . (in1, in7) + kZ3 . (sum15, sum37)
constexpr WeightPair kRotated2 = {k0_541, k0_541 - k1_847};
constexpr WeightPair kRotated3 = {k0_541 + k0_765, k0_541};
constexpr WeightPair kZ3 = {k1_175, k1_175 - k1_961};
constexpr WeightPair kZ4 = {k1_175 - k0_390, k1_175};
constexpr WeightPair kOdd0 = {k1_501 - k0_899, -k0_899};
constexpr WeightPair kOdd1 = {-k2_562, k3_072 - k2_562};
constexpr WeightPair kOdd2 = {k2_053 - k2_562, -k2_562};
constexpr WeightPair kOdd3 = {-k0_899, k0_298 - k0_899};

// Note [short first pass]
// A block whose coefficients outside of row 0 are all zero takes a first pass that is a left shift by 2. The full pass
// gives the same, 4 * in0, with one exception: it saturates where the shift wraps. So a variant may take the full pass
// for all blocks if it first reduces the products of such a block to 14 bits, sign included, which drops the bits that
// the shift would lose. That changes only products outside of -8192..8191, and no sane file has one.

// All ones for the zigzag positions outside of row 0.
struct RowMask {
    alignas(64) std::uint16_t bits[64] = {};
    constexpr RowMask() {
        for (int i = 0; i < 64; ++i) bits[i] = kNaturalOrder[i] < 8 ? 0 : 0xFFFF;
    }
};
constexpr RowMask kOutsideOfRow0;

}  // namespace fastload

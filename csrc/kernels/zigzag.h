// The order of the coefficients of a block in a file.
#pragma once

#include <cstdint>

#include "base/host_device.h"

namespace fastload {

// Note [zigzag blocks]
// A block stays in zigzag order, the order of the stream, until the inverse DCT, which applies the permutation once.
// The entropy decoder therefore stores runs of coefficients at consecutive positions. Quantization tables are in the
// order of their DQT segment, which is the same one.
constexpr std::uint8_t kNaturalOrder[64] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
};

// The zigzag position of the coefficient at natural position 8 * row + column.
struct ZigzagPositions {
    std::uint8_t of[64] = {};
    FASTLOAD_HOST_DEVICE constexpr ZigzagPositions() {
        for (int i = 0; i < 64; ++i) of[kNaturalOrder[i]] = static_cast<std::uint8_t>(i);
    }
};
constexpr ZigzagPositions kZigzagPositions;

}  // namespace fastload

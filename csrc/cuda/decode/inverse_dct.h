// Dequantisation and inverse DCT, the arithmetic of kernels/idct.h: eight threads for each block.
#pragma once

#include <cstdint>

#include "cuda/decode/scan_sample.h"
#include "kernels/idct_weights.h"

namespace fastload {

// A block of the window, and where its samples go.
struct WindowBlock {
    const std::int16_t* coefficients;
    const std::uint16_t* quantization;
    std::uint8_t* samples;  // of row 0
    std::int32_t row_bytes;
};

FASTLOAD_HOST_DEVICE inline WindowBlock window_block(const ScanSample& sample, std::uint32_t number) {
    const ScanHead& head = sample.head();
    int i = 0;
    while (i + 1 < head.num_components && number >= head.components[i + 1].first_block) ++i;
    const WireComponent& component = head.components[i];
    const auto wide = static_cast<std::uint32_t>(blocks_wide(head, component));
    const std::uint32_t x = (number - component.first_block) % wide;
    const std::uint32_t y = (number - component.first_block) / wide;
    WindowBlock block;
    block.coefficients = sample.coefficients() + std::uint64_t{64} * number;
    block.quantization = sample.quantization(i);
    block.samples = sample.samples(component) + std::uint64_t{8} * (std::uint64_t{8} * y * wide + x);
    block.row_bytes = static_cast<std::int32_t>(8 * wide);
    return block;
}

struct DctColumn {
    std::int32_t values[8];
    bool has_below;  // a coefficient below row 0 is not zero
};

// The zigzag position of the coefficient at natural position 8 * row + column.
FASTLOAD_HOST_DEVICE inline int zigzag_position(int natural) {
#ifdef __CUDA_ARCH__
    static const __device__ ZigzagPositions kPositions;
    return kPositions.of[natural];
#else
    return kZigzagPositions.of[natural];
#endif
}

FASTLOAD_HOST_DEVICE inline std::int32_t wrap_to_16(std::int32_t value) { return static_cast<std::int16_t>(value); }

// Transforms eight 16-bit numbers. The sums fit 32 bits: see idct_scalar.cpp.
FASTLOAD_HOST_DEVICE inline void transform_8(const std::int32_t (&in)[8], std::int32_t rounding,
                                             std::int32_t (&out)[8]) {
    const std::int32_t sum = wrap_to_16(in[0] + in[4]) * 8192 + rounding;
    const std::int32_t difference = wrap_to_16(in[0] - in[4]) * 8192 + rounding;
    const std::int32_t rotated2 = in[2] * kRotated2.first + in[6] * kRotated2.second;
    const std::int32_t rotated3 = in[2] * kRotated3.first + in[6] * kRotated3.second;
    const std::int32_t sum37 = wrap_to_16(in[3] + in[7]);
    const std::int32_t sum15 = wrap_to_16(in[1] + in[5]);
    const std::int32_t z3 = sum15 * kZ3.first + sum37 * kZ3.second;
    const std::int32_t z4 = sum15 * kZ4.first + sum37 * kZ4.second;
    const std::int32_t odd0 = in[1] * kOdd0.first + in[7] * kOdd0.second + z4;
    const std::int32_t odd1 = in[5] * kOdd1.first + in[3] * kOdd1.second + z3;
    const std::int32_t odd2 = in[5] * kOdd2.first + in[3] * kOdd2.second + z4;
    const std::int32_t odd3 = in[1] * kOdd3.first + in[7] * kOdd3.second + z3;
    out[0] = sum + rotated3 + odd0;
    out[7] = sum + rotated3 - odd0;
    out[1] = difference + rotated2 + odd1;
    out[6] = difference + rotated2 - odd1;
    out[2] = difference - rotated2 + odd2;
    out[5] = difference - rotated2 - odd2;
    out[3] = sum - rotated3 + odd3;
    out[4] = sum - rotated3 - odd3;
}

// Thread `column` of 8: its dequantised column.
FASTLOAD_HOST_DEVICE inline DctColumn load_column(const WindowBlock& block, int column) {
    DctColumn loaded = {};
    std::uint32_t below = 0;
    for (int row = 0; row < 8; ++row) {
        const int k = zigzag_position(8 * row + column);
        const std::uint32_t coefficient = static_cast<std::uint16_t>(block.coefficients[k]);
        loaded.values[row] = static_cast<std::int16_t>(coefficient * block.quantization[k]);
        if (row > 0) below |= coefficient;
    }
    loaded.has_below = below != 0;
    return loaded;
}

// The first pass of that column, to middle[row][column]. `has_below` is true if it is so for any column of the block:
// see Note [short first pass].
FASTLOAD_HOST_DEVICE inline void transform_column(const DctColumn& loaded, bool has_below, int column,
                                                  std::int16_t (*middle)[8]) {
    std::int32_t out[8];
    if (has_below) transform_8(loaded.values, 1 << (kPass1Shift - 1), out);
    for (int row = 0; row < 8; ++row) {
        middle[row][column] = static_cast<std::int16_t>(has_below ? clamp_to(out[row] >> kPass1Shift, -32768, 32767)
                                                                  : wrap_to_16(loaded.values[0] * 4));
    }
}

// Thread `row` of 8, after all of them have made their columns: the second pass of a row.
FASTLOAD_HOST_DEVICE inline void transform_row(const std::int16_t (*middle)[8], int row, const WindowBlock& block) {
    std::int32_t in[8];
    std::int32_t out[8];
    for (int column = 0; column < 8; ++column) in[column] = middle[row][column];
    transform_8(in, 1 << (kPass2Shift - 1), out);
    for (int column = 0; column < 8; ++column) {
        block.samples[row * block.row_bytes + column] =
            static_cast<std::uint8_t>(clamp_to(out[column] >> kPass2Shift, -128, 127) + 128);
    }
}

}  // namespace fastload

// A pass of a box filter in integers, along many lines at once.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fastload {

// As many lines (rows, or columns) of an image stand side by side: pixel i of line k is byte i * kBoxBlurLines + k.
constexpr std::size_t kBoxBlurLines = 64;

constexpr int kBoxWeightBits = 24;

// Pixels from -reach to reach count as `weight` each, and those next to them on both sides as `edge_weight`. These are
// parts of 2^24, and add up to that or to little less, so that sums fit into 32 bits. reach is in 0..65535.
struct BoxWeights {
    std::int32_t reach;
    std::uint32_t weight;
    std::uint32_t edge_weight;
};

// Writes the weighted means, rounded half up, of lines of `length` pixels, at least 1. Beyond its ends the outermost
// pixel of a line counts. `to` does not overlap `from`.
using BoxBlurFunction = void (*)(const BoxWeights& box, const std::uint8_t* from, std::int32_t length,
                                 std::uint8_t* to) noexcept;

void box_blur_scalar(const BoxWeights& box, const std::uint8_t* from, std::int32_t length, std::uint8_t* to) noexcept;
void box_blur_avx2(const BoxWeights& box, const std::uint8_t* from, std::int32_t length, std::uint8_t* to) noexcept;

}  // namespace fastload

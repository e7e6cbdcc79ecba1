// One pass of a box filter in integers, along many lines at once.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fastload {

// The number of lines (rows, or columns) of an image side by side: pixel i of line k is byte i * kBoxBlurLines + k.
constexpr std::size_t kBoxBlurLines = 64;

constexpr int kBoxWeightBits = 24;

// Pixels from -reach to reach have the weight `weight`, and their neighbours on both sides `edge_weight`. Weights are
// parts of 2^24, and add up to that or slightly less, so that sums fit into 32 bits. reach is in 0..65535.
struct BoxWeights {
    std::int32_t reach;
    std::uint32_t weight;
    std::uint32_t edge_weight;
};

// Writes the weighted means, rounded half up, of lines of `length` pixels, at least 1. Beyond the ends of a line its
// outermost pixel is repeated. `to` does not overlap `from`.
using BoxBlurFunction = void(const BoxWeights& box, const std::uint8_t* from, std::int32_t length,
                             std::uint8_t* to) noexcept;

BoxBlurFunction box_blur_scalar, box_blur_avx2;

}  // namespace fastload

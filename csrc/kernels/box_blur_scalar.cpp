#include <algorithm>

#include "kernels/box_blur.h"

namespace fastload {
namespace {

constexpr std::size_t kLines = kBoxBlurLines;

struct Lines {
    const std::uint8_t* pixels;
    std::int32_t length;

    const std::uint8_t* at(std::int32_t i) const noexcept {
        return pixels + kLines * static_cast<std::size_t>(std::clamp(i, 0, length - 1));
    }
};

void add_pixels(const std::uint8_t* pixels, std::uint32_t times, std::uint32_t* sums) noexcept {
    for (std::size_t k = 0; k < kLines; ++k) sums[k] += pixels[k] * times;
}

// The sums of the pixels from -reach - 1 to reach - 1: the window's position before the first pixel.
void add_first_window(const Lines& lines, std::int32_t reach, std::uint32_t* sums) noexcept {
    add_pixels(lines.at(0), static_cast<std::uint32_t>(reach) + 1, sums);
    const std::int32_t inside = std::min(reach, lines.length);
    for (std::int32_t i = 0; i < inside; ++i) add_pixels(lines.at(i), 1, sums);
    add_pixels(lines.at(lines.length), static_cast<std::uint32_t>(reach - inside), sums);
}

// Moves the window by one pixel: `left` leaves it, `right` enters it.
void move_window(const BoxWeights& box, const std::uint8_t* left, const std::uint8_t* right,
                 const std::uint8_t* behind_right, std::uint32_t* __restrict sums,
                 std::uint8_t* __restrict means) noexcept {
    constexpr std::uint32_t kHalf = 1U << (kBoxWeightBits - 1);
    for (std::size_t k = 0; k < kLines; ++k) {
        sums[k] += static_cast<std::uint32_t>(right[k]) - left[k];
        const std::uint32_t edges = static_cast<std::uint32_t>(left[k]) + behind_right[k];
        means[k] =
            static_cast<std::uint8_t>((sums[k] * box.weight + edges * box.edge_weight + kHalf) >> kBoxWeightBits);
    }
}

}  // namespace

void box_blur_scalar(const BoxWeights& box, const std::uint8_t* from, std::int32_t length, std::uint8_t* to) noexcept {
    const Lines lines = {from, length};
    std::uint32_t sums[kLines] = {};
    add_first_window(lines, box.reach, sums);
    for (std::int32_t i = 0; i < length; ++i) {
        move_window(box, lines.at(i - box.reach - 1), lines.at(i + box.reach), lines.at(i + box.reach + 1), sums, to);
        to += kLines;
    }
}

}  // namespace fastload

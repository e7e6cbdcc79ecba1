// Fills an image with one colour.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/image_view.h"

namespace fastload {

using RgbFill = std::array<std::uint8_t, 3>;

inline void fill_image(const RgbFill& fill, const PlanarImageView& image) noexcept {
    for (int plane = 0; plane < 3; ++plane) {
        for (std::int32_t y = 0; y < image.height; ++y) {
            std::memset(image.row(plane, y), fill[static_cast<std::size_t>(plane)],
                        static_cast<std::size_t>(image.width));
        }
    }
}

}  // namespace fastload

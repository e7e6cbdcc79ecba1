// Pillow's conversion of RGB to "L".
#pragma once

#include <cstdint>

namespace fastload {

// ITU-R 601-2 luma in 16-bit fixed point, rounded half up.
inline std::uint8_t luma(std::uint32_t red, std::uint32_t green, std::uint32_t blue) noexcept {
    return static_cast<std::uint8_t>((red * 19595U + green * 38470U + blue * 7471U + 0x8000U) >> 16);
}

}  // namespace fastload

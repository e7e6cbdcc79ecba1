// The arithmetic of every ImageEnhance: Pillow's Image.blend, and its conversion of RGB to "L".
#pragma once

#include <cstdint>

namespace fastload {

// `degenerate` at factor 0, `value` at factor 1, extrapolated and clipped beyond. In float32 and truncated. Sum and
// product are rounded separately, so the compiler must not contract them.
inline std::uint8_t blend(std::int32_t degenerate, std::int32_t value, float factor) noexcept {
    float mixed = static_cast<float>(degenerate) + factor * static_cast<float>(value - degenerate);
    mixed = mixed < 0.0F ? 0.0F : mixed;
    mixed = mixed > 255.0F ? 255.0F : mixed;
    return static_cast<std::uint8_t>(static_cast<std::int32_t>(mixed));
}

// ITU-R 601-2 luma in 16-bit fixed point, rounded half up.
inline std::uint8_t luma(std::uint32_t red, std::uint32_t green, std::uint32_t blue) noexcept {
    return static_cast<std::uint8_t>((red * 19595U + green * 38470U + blue * 7471U + 0x8000U) >> 16);
}

}  // namespace fastload

#include <algorithm>

#include "kernels/color.h"

namespace fastload {
namespace {

inline std::uint8_t saturate8(std::int16_t value) {
    return static_cast<std::uint8_t>(std::min(std::max(value, std::int16_t{0}), std::int16_t{255}));
}

// The high half of a 16-bit product, the one wide multiplication that every vector unit has. Written so, compilers
// vectorise the loop below. (a * b + 2^15) >> 16 is computed as ((2 a * b >> 16) + 1) >> 1, which is the same number.
inline std::int16_t rounded_product(std::int16_t a, std::int16_t constant) {
    const auto doubled = static_cast<std::int16_t>(2 * a);
    const auto high = static_cast<std::int16_t>((std::int32_t{doubled} * constant) >> 16);
    return static_cast<std::int16_t>((high + 1) >> 1);
}

}  // namespace

void ycc_to_rgb_scalar(std::uint8_t* __restrict y_to_r, std::uint8_t* __restrict cb_to_g,
                       std::uint8_t* __restrict cr_to_b, std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
        const std::int16_t y = y_to_r[i];
        const auto cb = static_cast<std::int16_t>(cb_to_g[i] - 128);
        const auto cr = static_cast<std::int16_t>(cr_to_b[i] - 128);
        // 91881 = 65536 + 26345, 116130 = 2 * 65536 - 14942, -46802 = 18734 - 65536: 16-bit constants and whole parts.
        const auto red = static_cast<std::int16_t>(y + cr + rounded_product(cr, 26345));
        const auto blue = static_cast<std::int16_t>(y + 2 * cb + rounded_product(cb, -14942));
        // (-22554 cb + 18734 cr + 2^15) >> 16 in 16 bits: -22554 = -88 * 256 - 26 and 18734 = 73 * 256 + 46, and no sum
        // of products exceeds 128 * (88 + 73) = 20608.
        const auto high = static_cast<std::int16_t>(73 * cr - 88 * cb);
        const auto low = static_cast<std::int16_t>(46 * cr - 26 * cb);
        const auto mixed = static_cast<std::int16_t>((high + (low >> 8) + 128) >> 8);
        const auto green = static_cast<std::int16_t>(y - cr + mixed);
        y_to_r[i] = saturate8(red);
        cb_to_g[i] = saturate8(green);
        cr_to_b[i] = saturate8(blue);
    }
}

}  // namespace fastload

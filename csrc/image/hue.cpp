#include "image/hue.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace fastload {
namespace {

struct Hsv {
    std::uint8_t hue;
    std::uint8_t saturation;
    std::uint8_t value;
};

struct Rgb {
    std::uint8_t red;
    std::uint8_t green;
    std::uint8_t blue;
};

// The mix of float32 and double is Pillow's, step by step: another one gives other bytes for some of the colours.
// `highest` is greater than `lowest`.
Hsv to_hsv(const Rgb& color, std::uint8_t lowest, std::uint8_t highest) noexcept {
    const auto chroma = static_cast<float>(highest - lowest);
    const float saturation = chroma / static_cast<float>(highest);
    const float red = static_cast<float>(highest - color.red) / chroma;
    const float green = static_cast<float>(highest - color.green) / chroma;
    const float blue = static_cast<float>(highest - color.blue) / chroma;
    float sixths = 0.0F;
    if (color.red == highest) {
        sixths = blue - green;
    } else if (color.green == highest) {
        sixths = static_cast<float>(2.0 + static_cast<double>(red) - static_cast<double>(blue));
    } else {
        sixths = static_cast<float>(4.0 + static_cast<double>(green) - static_cast<double>(red));
    }
    double turn = static_cast<double>(sixths) / 6.0 + 1.0;  // in [5/6, 2), so its remainder by 1 is exact
    if (turn >= 1.0) turn -= 1.0;
    const auto hue = static_cast<double>(static_cast<float>(turn));
    return {static_cast<std::uint8_t>(static_cast<std::int32_t>(hue * 255.0)),
            static_cast<std::uint8_t>(static_cast<std::int32_t>(static_cast<double>(saturation) * 255.0)), highest};
}

// C's round() of a number in [0, 255].
std::uint8_t round_half_up(double number) noexcept {
    const auto below = static_cast<std::int32_t>(number);
    return static_cast<std::uint8_t>(below + (number - below >= 0.5 ? 1 : 0));
}

// What the way back takes from the bytes of hue and saturation alone. The turn is in it.
struct HueTurn {
    std::uint8_t sector[256];
    float fraction[256];  // of the sector
    float saturation[256];

    explicit HueTurn(std::uint8_t turn) noexcept {
        for (int byte = 0; byte < 256; ++byte) {
            const double sixths =
                static_cast<double>(static_cast<float>(static_cast<std::uint8_t>(byte + turn))) * 6.0 / 255.0;
            const auto whole = static_cast<std::int32_t>(sixths);
            sector[byte] = static_cast<std::uint8_t>(whole % 6);
            fraction[byte] = static_cast<float>(sixths - static_cast<double>(whole));
            saturation[byte] = static_cast<float>(static_cast<double>(static_cast<float>(byte)) / 255.0);
        }
    }
};

Rgb to_rgb(const Hsv& color, const HueTurn& turn) noexcept {
    const std::uint8_t value = color.value;
    if (color.saturation == 0) return {value, value, value};
    const float fraction = turn.fraction[color.hue];
    const float saturation = turn.saturation[color.saturation];
    const auto scaled = static_cast<double>(value);
    const auto low = round_half_up(scaled * (1.0 - static_cast<double>(saturation)));
    const auto falling = round_half_up(scaled * (1.0 - static_cast<double>(saturation * fraction)));
    const auto rising =
        round_half_up(scaled * (1.0 - static_cast<double>(saturation) * (1.0 - static_cast<double>(fraction))));
    switch (turn.sector[color.hue]) {
        case 0:
            return {value, rising, low};
        case 1:
            return {falling, value, low};
        case 2:
            return {low, value, rising};
        case 3:
            return {low, falling, value};
        case 4:
            return {rising, low, value};
        default:
            return {value, low, falling};
    }
}

}  // namespace

void adjust_hue(double factor, const PlanarImageView& pixels) noexcept {
    const HueTurn turn(static_cast<std::uint8_t>(static_cast<std::int32_t>(factor * 255.0)));
    for (std::int32_t y = 0; y < pixels.height; ++y) {
        const std::size_t offset = static_cast<std::size_t>(y) * pixels.row_stride_bytes;
        std::uint8_t* red = pixels.planes[0] + offset;
        std::uint8_t* green = pixels.planes[1] + offset;
        std::uint8_t* blue = pixels.planes[2] + offset;
        for (std::int32_t x = 0; x < pixels.width; ++x) {
            const Rgb color = {red[x], green[x], blue[x]};
            const std::uint8_t highest = std::max({color.red, color.green, color.blue});
            const std::uint8_t lowest = std::min({color.red, color.green, color.blue});
            if (highest == lowest) continue;  // gray has no hue
            const Rgb turned = to_rgb(to_hsv(color, lowest, highest), turn);
            red[x] = turned.red;
            green[x] = turned.green;
            blue[x] = turned.blue;
        }
    }
}

}  // namespace fastload

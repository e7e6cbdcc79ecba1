#include "image/steps/hue.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "image/plan/argument_checks.h"

namespace fastload {
namespace {

struct Rgb {
    std::uint8_t red;
    std::uint8_t green;
    std::uint8_t blue;
};

// The mix of float32 and double below is the one in Pillow, step by step: another mix gives other bytes for some
// colours.

// The position of a colour on the circle, in sixths of it, counted from -1. Pillow divides the distance of each channel
// from the highest one by the chroma. The highest channel gives 0 and the lowest one 1, so one division is left;
// `middle` is its result.
float hue_in_sixths(const Rgb& color, std::uint8_t lowest, std::uint8_t highest, float middle) noexcept {
    // By highest channel, and by which of the other two is the lowest. A table, because branches on pixels are
    // mispredicted.
    constexpr double kStart[6] = {-1.0, 1.0, 3.0, 1.0, 5.0, 3.0};
    constexpr double kSlope[6] = {1.0, -1.0, -1.0, 1.0, -1.0, 1.0};
    const bool is_red = color.red == highest;
    const bool is_green = !is_red & (color.green == highest);
    const bool is_first = is_green ? color.red == lowest : color.green == lowest;
    const int sixth = 4 - 4 * is_red - 2 * is_green + !is_first;
    // Exact in double, and then rounded once.
    return static_cast<float>(kStart[sixth] + kSlope[sixth] * static_cast<double>(middle));
}

std::uint8_t hue_byte(float sixths) noexcept {
    double turn = static_cast<double>(sixths) / 6.0 + 1.0;  // in [5/6, 2), so its remainder by 1 is exact
    turn -= static_cast<double>(turn >= 1.0);
    return static_cast<std::uint8_t>(static_cast<std::int32_t>(static_cast<double>(static_cast<float>(turn)) * 255.0));
}

// C's round() of a number in [0, 255].
std::uint32_t round_half_up(double number) noexcept {
    const auto below = static_cast<std::int32_t>(number);
    return static_cast<std::uint32_t>(below + static_cast<std::int32_t>(number - below >= 0.5));
}

// The part of the way back that depends only on the bytes of hue and saturation. It includes the turn.
struct HueTurn {
    struct Sector {
        // The loss of the middle value: saturation times one of the two, the first in sectors where it rises with the
        // hue, the second in sectors where it falls; the other one is 0.
        double rising;
        float falling;
        // The shifts of `value | middle << 8 | low << 16` for red, green and blue, in bytes.
        std::uint8_t shifts[3];
    };
    Sector sectors[256];  // by hue
    float saturations[256];

    explicit HueTurn(std::uint8_t turn) noexcept {
        constexpr std::uint8_t kShifts[6][3] = {{0, 8, 16}, {8, 0, 16}, {16, 0, 8}, {16, 8, 0}, {8, 16, 0}, {0, 16, 8}};
        for (int byte = 0; byte < 256; ++byte) {
            const auto hue = static_cast<double>(static_cast<std::uint8_t>(byte + turn));
            const double sixths = hue * 6.0 / 255.0;
            const auto whole = static_cast<std::int32_t>(sixths);
            const auto fraction = static_cast<float>(sixths - static_cast<double>(whole));
            const bool is_rising = whole % 2 == 0;
            const auto& shifts = kShifts[whole % 6];  // a hue of 255 is in the first sector again
            sectors[byte] = {is_rising ? 1.0 - static_cast<double>(fraction) : 0.0,
                             is_rising ? 0.0F : fraction,
                             {shifts[0], shifts[1], shifts[2]}};
            saturations[byte] = static_cast<float>(static_cast<double>(byte) / 255.0);
        }
    }
};

Rgb to_rgb(std::uint8_t hue, std::uint8_t saturation_byte, std::uint8_t value_byte, const HueTurn& turn) noexcept {
    const HueTurn::Sector& sector = turn.sectors[hue];
    const float saturation = turn.saturations[saturation_byte];
    const auto value = static_cast<double>(value_byte);
    const double loss =
        static_cast<double>(saturation) * sector.rising + static_cast<double>(saturation * sector.falling);
    const std::uint32_t low = round_half_up(value * (1.0 - static_cast<double>(saturation)));
    const std::uint32_t middle = round_half_up(value * (1.0 - loss));
    const std::uint32_t packed = value_byte | middle << 8 | low << 16;
    return {static_cast<std::uint8_t>(packed >> sector.shifts[0]),
            static_cast<std::uint8_t>(packed >> sector.shifts[1]),
            static_cast<std::uint8_t>(packed >> sector.shifts[2])};
}

Rgb turn_color(const Rgb& color, const HueTurn& turn) noexcept {
    const std::uint8_t highest = std::max({color.red, color.green, color.blue});
    const std::uint8_t lowest = std::min({color.red, color.green, color.blue});
    if (highest == lowest) return color;  // gray has no hue
    const int middle = color.red + color.green + color.blue - highest - lowest;
    const auto chroma = static_cast<float>(highest - lowest);
    const float sixths = hue_in_sixths(color, lowest, highest, static_cast<float>(highest - middle) / chroma);
    const float saturation = chroma / static_cast<float>(highest);
    // 0 makes low and middle equal to the value, as Pillow does for gray.
    const auto saturation_byte =
        static_cast<std::uint8_t>(static_cast<std::int32_t>(static_cast<double>(saturation) * 255.0));
    return to_rgb(hue_byte(sixths), saturation_byte, highest, turn);
}

}  // namespace

std::string Hue::check() const { return std::fabs(factor) <= 0.5 ? "" : sentence("factor", "in [-0.5, 0.5]", factor); }

void Hue::change(const PlanarImageView& pixels) const noexcept {
    const HueTurn turn(static_cast<std::uint8_t>(static_cast<std::int32_t>(factor * 255.0)));
    for (std::int32_t y = 0; y < pixels.height; ++y) {
        std::uint8_t* red = pixels.row(0, y);
        std::uint8_t* green = pixels.row(1, y);
        std::uint8_t* blue = pixels.row(2, y);
        for (std::int32_t x = 0; x < pixels.width; ++x) {
            const Rgb turned = turn_color({red[x], green[x], blue[x]}, turn);
            red[x] = turned.red;
            green[x] = turned.green;
            blue[x] = turned.blue;
        }
    }
}

}  // namespace fastload

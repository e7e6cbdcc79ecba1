#include "image/steps/crop.h"

#include <algorithm>
#include <cmath>

namespace fastload {
namespace {

struct AxisCrop {
    std::int32_t start;
    std::int32_t length;
    std::int32_t pad_before;
    std::int32_t pad_after;
};

AxisCrop center_axis(std::int32_t length, std::int32_t wanted) noexcept {
    if (wanted > length) return {0, length, (wanted - length) / 2, (wanted - length + 1) / 2};
    return {static_cast<std::int32_t>(round_half_even((length - wanted) / 2.0)), wanted, 0, 0};
}

Region central_box(ImageSize image, const RandomBoxRule& rule) noexcept {
    const double image_ratio = static_cast<double>(image.width) / image.height;
    Region box{0, 0, image.width, image.height};
    if (image_ratio < rule.ratio[0]) {
        box.height = static_cast<std::int32_t>(round_half_even(image.width / rule.ratio[0]));
    } else if (image_ratio > rule.ratio[1]) {
        box.width = static_cast<std::int32_t>(round_half_even(image.height * rule.ratio[1]));
    }
    box.left = (image.width - box.width) / 2;
    box.top = (image.height - box.height) / 2;
    return box;
}

}  // namespace

double round_half_even(double value) noexcept {
    const double below = std::floor(value);
    const double rest = value - below;
    if (rest != 0.5) return rest < 0.5 ? below : below + 1.0;
    return std::fmod(below, 2.0) == 0.0 ? below : below + 1.0;
}

Region choose_random_box(ImageSize image, const RandomBoxRule& rule, DrawSource* draws) noexcept {
    const double area = static_cast<double>(image.width) * image.height;
    const auto scale_from = static_cast<float>(rule.scale[0]);
    const auto scale_to = static_cast<float>(rule.scale[1]);
    for (int attempt = 0; attempt < 10; ++attempt) {
        const double target_area = area * static_cast<double>(draws->uniform(scale_from, scale_to));
        const auto aspect = static_cast<double>(draws->uniform_exp(rule.log_ratio));
        const double width = round_half_even(std::sqrt(target_area * aspect));
        const double height = round_half_even(std::sqrt(target_area / aspect));
        if (!(0.0 < width && width <= image.width && 0.0 < height && height <= image.height)) continue;
        Region box{0, 0, static_cast<std::int32_t>(width), static_cast<std::int32_t>(height)};
        box.top = static_cast<std::int32_t>(draws->below(static_cast<std::uint32_t>(image.height - box.height + 1)));
        box.left = static_cast<std::int32_t>(draws->below(static_cast<std::uint32_t>(image.width - box.width + 1)));
        return box;
    }
    return central_box(image, rule);
}

LongSize resized_shorter_side(ImageSize image, std::int32_t size, std::int32_t max_size) noexcept {
    const bool is_upright = image.width <= image.height;
    const std::int64_t short_side = std::min(image.width, image.height);
    const std::int64_t long_side = std::max(image.width, image.height);
    std::int64_t new_short = size;
    // Python's int(a * b / c): the quotient of the exact product, rounded to double and then truncated.
    auto new_long = static_cast<std::int64_t>(static_cast<double>(size * long_side) / static_cast<double>(short_side));
    if (max_size != 0 && new_long > max_size) {
        new_short =
            static_cast<std::int64_t>(static_cast<double>(max_size * new_short) / static_cast<double>(new_long));
        new_long = max_size;
    }
    return is_upright ? LongSize{new_short, new_long} : LongSize{new_long, new_short};
}

PaddedCrop center_crop(ImageSize image, ImageSize crop) noexcept {
    const AxisCrop x = center_axis(image.width, crop.width);
    const AxisCrop y = center_axis(image.height, crop.height);
    return {{x.start, y.start, x.length, y.length}, x.pad_before, y.pad_before, x.pad_after, y.pad_after};
}

}  // namespace fastload

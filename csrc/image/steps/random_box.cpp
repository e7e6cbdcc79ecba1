#include "image/steps/random_box.h"

#include <cmath>
#include <cstdint>

#include "image/plan/argument_checks.h"

namespace fastload {

std::string check_box_rule(const RandomBoxRule& rule) {
    // They become float32.
    const auto is_ordered = [](const std::array<double, 2>& pair) {
        return pair[0] <= pair[1] && pair[1] <= kLargestFloat;
    };
    if (!is_ordered(rule.scale) || rule.scale[0] < 0.0) {
        return sentence("scale", "two float32 numbers with 0 <= first <= second",
                        pair_text(rule.scale[0], rule.scale[1]));
    }
    if (!is_ordered(rule.ratio) || !(rule.ratio[0] > 0.0)) {
        return sentence("ratio", "two float32 numbers with 0 < first <= second",
                        pair_text(rule.ratio[0], rule.ratio[1]));
    }
    return "";
}

BoxSides draw_box_sides(ImageSize image, const RandomBoxRule& rule, DrawSource* draws) noexcept {
    const double area = static_cast<double>(image.width) * image.height;
    const auto scale_from = static_cast<float>(rule.scale[0]);
    const auto scale_to = static_cast<float>(rule.scale[1]);
    const double target_area = area * static_cast<double>(draws->uniform(scale_from, scale_to));
    const auto [log_from, log_to] = rule.log_ratio;
    const auto aspect = static_cast<double>(draws->uniform_exp(log_from, log_to, rule.torch_exp.get()));
    return {std::nearbyint(std::sqrt(target_area * aspect)), std::nearbyint(std::sqrt(target_area / aspect))};
}

Region draw_box_place(ImageSize image, double width, double height, DrawSource* draws) noexcept {
    Region box{0, 0, static_cast<std::int32_t>(width), static_cast<std::int32_t>(height)};
    box.top = static_cast<std::int32_t>(draws->below(static_cast<std::uint32_t>(image.height - box.height + 1)));
    box.left = static_cast<std::int32_t>(draws->below(static_cast<std::uint32_t>(image.width - box.width + 1)));
    return box;
}

}  // namespace fastload

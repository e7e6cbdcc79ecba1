#include "image/steps/color_jitter.h"

#include <cstdint>

#include "image/plan/argument_checks.h"
#include "image/steps/hue.h"
#include "image/steps/point_ops.h"
#include "image/steps/saturation.h"
#include "image/steps/sharpness.h"

namespace fastload {
namespace {

template <typename Op>
void list_adjustment(double factor, Resolver* resolver) noexcept {
    list_made_op(Op(factor), resolver);
}

std::string check_range(const char* name, const ColorJitter::Range& range, double least, double most,
                        const char* allowed) {
    if (!range) return "";
    const auto& [low, high] = *range;
    return least <= low && low <= high && high <= most ? "" : sentence(name, allowed, pair_text(low, high));
}

}  // namespace

std::string ColorJitter::check() const {
    constexpr const char* kFactors = "None or two float32 numbers with 0 <= first <= second";
    return first_of(check_range("brightness", brightness, 0.0, kLargestFloat, kFactors),
                    check_range("contrast", contrast, 0.0, kLargestFloat, kFactors),
                    check_range("saturation", saturation, 0.0, kLargestFloat, kFactors),
                    check_range("hue", hue, -0.5, 0.5, "None or two numbers with -0.5 <= first <= second <= 0.5"));
}

Status ColorJitter::resolve(DrawSource* draws, Resolver* resolver) const noexcept {
    struct Adjustment {
        const Range& range;
        void (*list)(double factor, Resolver* resolver) noexcept;
        double factor = 1.0;
    };
    Adjustment adjustments[4] = {{brightness, list_adjustment<Brightness>},
                                 {contrast, list_adjustment<Contrast>},
                                 {saturation, list_adjustment<Saturation>},
                                 {hue, list_adjustment<Hue>}};
    std::uint8_t order[4];
    draws->permutation(order, 4);
    for (Adjustment& adjustment : adjustments) {
        if (!adjustment.range) continue;
        const auto& [low, high] = *adjustment.range;
        adjustment.factor = static_cast<double>(draws->uniform(static_cast<float>(low), static_cast<float>(high)));
    }
    for (const std::uint8_t i : order) {
        if (adjustments[i].range) adjustments[i].list(adjustments[i].factor, resolver);
    }
    return Status::ok();
}

}  // namespace fastload

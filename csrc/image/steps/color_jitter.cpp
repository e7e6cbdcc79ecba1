#include "image/steps/color_jitter.h"

#include <cstdint>

namespace fastload {

JitterOps draw_color_jitter(const ColorJitter& jitter, DrawSource* draws) noexcept {
    constexpr std::array<PixelOpKind, 4> kKinds = {PixelOpKind::kBrightness, PixelOpKind::kContrast,
                                                   PixelOpKind::kSaturation, PixelOpKind::kHue};
    std::uint8_t order[4];
    draws->permutation(order, 4);
    std::array<PixelOp, 4> ops;
    for (std::size_t i = 0; i < ops.size(); ++i) {
        if (!jitter.ranges[i]) continue;
        ops[i].kind = kKinds[i];
        ops[i].factor = static_cast<double>(
            draws->uniform(static_cast<float>(jitter.ranges[i]->low), static_cast<float>(jitter.ranges[i]->high)));
    }
    JitterOps result;
    for (const std::uint8_t i : order) {
        if (jitter.ranges[i]) result.ops[result.count++] = ops[i];
    }
    return result;
}

}  // namespace fastload

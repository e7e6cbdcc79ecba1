// torchvision's ColorJitter.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "image/random/draw_source.h"
#include "image/steps/pixel_op.h"

namespace fastload {

struct FactorRange {
    double low = 1.0;
    double high = 1.0;
};

// The ranges of brightness, contrast, saturation and hue, in this order; none where the property stays.
struct ColorJitter {
    std::array<std::optional<FactorRange>, 4> ranges;
};

// The operations for one sample, at most four, in the order in which they run. Draws the order first, then a factor for
// each range in the order above.
struct JitterOps {
    std::array<PixelOp, 4> ops;
    std::size_t count = 0;
};
JitterOps draw_color_jitter(const ColorJitter& jitter, DrawSource* draws) noexcept;

}  // namespace fastload

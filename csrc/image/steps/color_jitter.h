// torchvision's ColorJitter.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "image/plan/step.h"

namespace fastload {

// Each factor is drawn between two bounds; none if the property does not change.
struct ColorJitter final : Step {
    using Range = std::optional<std::array<double, 2>>;

    Range brightness;
    Range contrast;
    Range saturation;
    Range hue;

    std::string check() const override;
    std::size_t max_operations() const noexcept override { return 4; }
    // Draws the order first, then a factor for each range in the order above.
    Status resolve(DrawSource* draws, Resolver* resolver) const noexcept override;
};

}  // namespace fastload

// torchvision's RandomRotation, to an image of the same size.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "image/pixels/fill_image.h"
#include "image/plan/step.h"
#include "image/resize/resize_plan.h"

namespace fastload {

// Rotates counter-clockwise by an angle drawn from `degrees`, around `center` or else around the middle of the image.
struct RandomRotation final : Step {
    std::array<double, 2> degrees{};
    std::optional<std::array<double, 2>> center;  // (x, y), in pixels from the upper left corner
    RgbFill fill{};
    Interpolation interpolation = Interpolation::kNearest;  // as in an Affine

    std::string check() const override;
    Status resolve(DrawSource* draws, Resolver* resolver) const noexcept override;
};

}  // namespace fastload

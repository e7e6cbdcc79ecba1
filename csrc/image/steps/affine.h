// Pillow's Image.transform(AFFINE) to an image of the same size, and torchvision's RandomRotation.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "image/pixels/fill_image.h"
#include "image/plan/step.h"
#include "image/resize/resize_plan.h"
#include "image/steps/pixel_op.h"

namespace fastload {

// Pixel (x, y) comes from (a x + b y + c, d x + e y + f), both taken at pixel centres, for finite a, b, c, d, e, f =
// `matrix`; it is `fill` if that point is outside.
struct Affine final : RemakingOp {
    std::array<double, 6> matrix{};
    RgbFill fill{};
    Interpolation interpolation = Interpolation::kNearest;  // or kBilinear, kBicubic

    std::string check() const override;
    Status remake(const PlanarImageView& source, const PlanarImageView& destination,
                  Workspace* workspace) const noexcept override;
    OperationReport report() const override;
};

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

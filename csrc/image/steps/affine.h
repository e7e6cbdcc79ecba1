// Pillow's Image.transform(AFFINE) to an image of the same size.
#pragma once

#include <array>
#include <string>

#include "image/pixels/fill_image.h"
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

// Like Step::check(), for the interpolation of an Affine.
std::string check_affine_interpolation(Interpolation interpolation);

}  // namespace fastload

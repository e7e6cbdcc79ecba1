// ImageEnhance.Sharpness: a blend with the image after Pillow's 3x3 SMOOTH filter.
#pragma once

#include <string>

#include "image/steps/pixel_op.h"

namespace fastload {

// The outermost pixels stay as they are, and so do images with a side below 3.
struct Sharpness final : RemakingOp {
    double factor = 1.0;

    explicit Sharpness(double wanted = 1.0) noexcept : factor(wanted) {}
    std::string check() const override { return check_blend_factor(factor); }
    Status remake(const PlanarImageView& source, const PlanarImageView& destination,
                  Workspace* workspace) const noexcept override;
    OperationReport report() const override { return {"sharpness", factor}; }
};

}  // namespace fastload

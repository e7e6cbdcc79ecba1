// torchvision's adjust_hue on a PIL image: to Pillow's HSV bytes, a turn of the hue byte, and back.
#pragma once

#include <string>

#include "image/steps/pixel_op.h"

namespace fastload {

// `factor` is in [-0.5, 0.5]; the hue byte turns by factor * 255, truncated, and wraps. A factor of 0 is no identity:
// the way through HSV bytes loses precision.
struct Hue final : InPlaceOp {
    double factor = 0.0;

    explicit Hue(double wanted = 0.0) noexcept : factor(wanted) {}
    std::string check() const override;
    bool keeps_info() const noexcept override { return false; }  // through NumPy
    void change(const PlanarImageView& pixels) const noexcept override;
    OperationReport report() const override { return {"hue", factor}; }
};

}  // namespace fastload

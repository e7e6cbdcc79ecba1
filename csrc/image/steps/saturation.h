// Colour against luma: ImageEnhance.Color, Image.convert("L"), and torchvision's to_grayscale with three channels.
#pragma once

#include <string>

#include "image/steps/pixel_op.h"

namespace fastload {

struct Saturation final : InPlaceOp {
    double factor = 1.0;

    explicit Saturation(double wanted = 1.0) noexcept : factor(wanted) {}
    std::string check() const override { return check_blend_factor(factor); }
    void change(const PlanarImageView& pixels) const noexcept override;
    OperationReport report() const override { return {"saturation", factor}; }
};

// Image.convert("L"), in three channels.
struct Luma : InPlaceOp {
    void change(const PlanarImageView& pixels) const noexcept final;
    OperationReport report() const final { return {"grayscale"}; }
};

struct Grayscale final : Luma {
    bool keeps_info() const noexcept override { return false; }  // through NumPy
};

}  // namespace fastload

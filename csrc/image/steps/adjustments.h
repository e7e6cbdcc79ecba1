// ImageEnhance and torchvision's adjust_hue: what a ColorJitter is made of.
#pragma once

#include <string>

#include "image/steps/pixel_op.h"

namespace fastload {

// Blends an image with a degenerate one, which has factor 0.
struct Brightness final : InPlaceOp {
    double factor = 1.0;

    explicit Brightness(double wanted = 1.0) noexcept : factor(wanted) {}
    std::string check() const override;
    bool keeps_info() const noexcept override { return false; }
    void change(const PlanarImageView& pixels) const noexcept override;
    OperationReport report() const override { return {"brightness", factor}; }
};

struct Contrast final : InPlaceOp {
    double factor = 1.0;

    explicit Contrast(double wanted = 1.0) noexcept : factor(wanted) {}
    std::string check() const override;
    bool keeps_info() const noexcept override { return false; }
    void change(const PlanarImageView& pixels) const noexcept override;
    OperationReport report() const override { return {"contrast", factor}; }
};

// Of an image made of this one, which has its info.
struct Saturation final : InPlaceOp {
    double factor = 1.0;

    explicit Saturation(double wanted = 1.0) noexcept : factor(wanted) {}
    std::string check() const override;
    void change(const PlanarImageView& pixels) const noexcept override;
    OperationReport report() const override { return {"saturation", factor}; }
};

struct Sharpness final : RemakingOp {
    double factor = 1.0;

    explicit Sharpness(double wanted = 1.0) noexcept : factor(wanted) {}
    std::string check() const override;
    Status remake(const PlanarImageView& source, const PlanarImageView& destination,
                  AlignedBuffer* scratch) const noexcept override;
    OperationReport report() const override { return {"sharpness", factor}; }
};

// By a part of the colour circle, -0.5..0.5. Goes through NumPy.
struct Hue final : InPlaceOp {
    double factor = 0.0;

    explicit Hue(double wanted = 0.0) noexcept : factor(wanted) {}
    std::string check() const override;
    bool keeps_info() const noexcept override { return false; }
    void change(const PlanarImageView& pixels) const noexcept override;
    OperationReport report() const override { return {"hue", factor}; }
};

}  // namespace fastload

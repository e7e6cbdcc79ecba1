// ImageOps, and luma in all three channels.
#pragma once

#include <cstdint>
#include <string>

#include "image/pixels/point_ops.h"
#include "image/pixels/saturation.h"
#include "image/steps/pixel_op.h"

namespace fastload {

// To `bits`, 1..8.
struct Posterize final : InPlaceOp {
    std::int32_t bits = 8;

    std::string check() const override;
    void change(const PlanarImageView& pixels) const noexcept override { posterize(bits, pixels); }
    OperationReport report() const override { return {"posterize", bits}; }
};

// From `threshold` on.
struct Solarize final : InPlaceOp {
    double threshold = 0.0;

    std::string check() const override;
    void change(const PlanarImageView& pixels) const noexcept override { solarize(threshold, pixels); }
    OperationReport report() const override { return {"solarize", threshold}; }
};

struct Autocontrast final : InPlaceOp {
    void change(const PlanarImageView& pixels) const noexcept override { autocontrast(pixels); }
    OperationReport report() const override { return {"autocontrast"}; }
};

struct Equalize final : InPlaceOp {
    void change(const PlanarImageView& pixels) const noexcept override { equalize(pixels); }
    OperationReport report() const override { return {"equalize"}; }
};

struct Invert final : InPlaceOp {
    void change(const PlanarImageView& pixels) const noexcept override { invert(pixels); }
    OperationReport report() const override { return {"invert"}; }
};

// Goes through NumPy.
struct Grayscale final : InPlaceOp {
    bool keeps_info() const noexcept override { return false; }
    void change(const PlanarImageView& pixels) const noexcept override { make_gray(pixels); }
    OperationReport report() const override { return {"grayscale"}; }
};

}  // namespace fastload

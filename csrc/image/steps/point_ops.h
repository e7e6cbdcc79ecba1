// Operations that look up each value of a channel in a table: Image.point, ImageOps and two of ImageEnhance.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "image/steps/pixel_op.h"

namespace fastload {

struct Brightness final : InPlaceOp {
    double factor = 1.0;

    explicit Brightness(double wanted = 1.0) noexcept : factor(wanted) {}
    std::string check() const override { return check_blend_factor(factor); }
    bool keeps_info() const noexcept override { return false; }  // a blend with a new image
    void change(const PlanarImageView& pixels) const noexcept override;
    OperationReport report() const override { return {"brightness", factor}; }
};

// Contrast around the mean luma of the image, rounded to an integer.
struct Contrast final : InPlaceOp {
    double factor = 1.0;

    explicit Contrast(double wanted = 1.0) noexcept : factor(wanted) {}
    std::string check() const override { return check_blend_factor(factor); }
    bool keeps_info() const noexcept override { return false; }  // a blend with a new image
    void change(const PlanarImageView& pixels) const noexcept override;
    OperationReport report() const override { return {"contrast", factor}; }
};

// Keeps the upper `bits` (1..8) of each value.
struct Posterize final : InPlaceOp {
    std::int32_t bits = 8;

    std::string check() const override;
    void change(const PlanarImageView& pixels) const noexcept override;
    OperationReport report() const override { return {"posterize", bits}; }
};

// Inverts values that are not below `threshold`.
struct Solarize final : InPlaceOp {
    double threshold = 0.0;

    std::string check() const override;
    void change(const PlanarImageView& pixels) const noexcept override;
    OperationReport report() const override { return {"solarize", threshold}; }
};

// Pillow's Image.point with a table for each channel.
struct PointTable final : InPlaceOp {
    std::vector<std::byte> table;  // 256 values of each channel

    std::string check() const override;
    void change(const PlanarImageView& pixels) const noexcept override;
    OperationReport report() const override;
};

struct Invert final : InPlaceOp {
    void change(const PlanarImageView& pixels) const noexcept override;
    OperationReport report() const override { return {"invert"}; }
};

// Stretches each channel to 0..255.
struct Autocontrast final : InPlaceOp {
    void change(const PlanarImageView& pixels) const noexcept override;
    OperationReport report() const override { return {"autocontrast"}; }
};

// Evens out each channel's histogram.
struct Equalize final : InPlaceOp {
    void change(const PlanarImageView& pixels) const noexcept override;
    OperationReport report() const override { return {"equalize"}; }
};

}  // namespace fastload

// Pillow's ImageFilter.BoxBlur and ImageFilter.GaussianBlur.
#pragma once

#include <array>
#include <string>

#include "image/steps/pixel_op.h"

namespace fastload {

struct BoxBlur final : PixelOp {
    std::array<float, 2> radius{};  // along x and y, each in 0..kMaxBoxRadius

    std::string check() const override;
    bool is_identity() const noexcept override { return radius[0] == 0.0F && radius[1] == 0.0F; }
    Status run(WorkingImage* image) const noexcept override;
    OperationReport report() const override;
};

// Three box blurs instead of a Gaussian.
struct ThreeBoxBlurs final : PixelOp {
    std::array<float, 2> sigma{};  // along x and y, each in 0..kMaxBoxRadius

    std::string check() const override;
    bool is_identity() const noexcept override { return sigma[0] == 0.0F && sigma[1] == 0.0F; }
    Status run(WorkingImage* image) const noexcept override;
    OperationReport report() const override;
};

}  // namespace fastload

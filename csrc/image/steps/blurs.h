// torchvision's GaussianBlur, and Pillow's ImageFilter.BoxBlur and ImageFilter.GaussianBlur.
#pragma once

#include <array>
#include <string>

#include "image/blur/gaussian_blur.h"
#include "image/plan/step.h"
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

struct GaussianBlur final : Step, GaussianKernel {
    std::array<float, 2> sigma{};  // the bounds of the drawn sigma

    std::string check() const override;
    // Fails if the kernel reaches over more than the image.
    Status resolve(DrawSource* draws, Resolver* resolver) const noexcept override;
};

}  // namespace fastload

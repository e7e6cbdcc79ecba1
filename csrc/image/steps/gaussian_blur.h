// torchvision's GaussianBlur.
#pragma once

#include <array>
#include <string>

#include "image/blur/gaussian_blur.h"
#include "image/plan/step.h"

namespace fastload {

struct GaussianBlur final : Step, GaussianKernel {
    std::array<float, 2> sigma{};  // the bounds of the drawn sigma

    std::string check() const override;
    // Fails if the kernel reaches over more than the image.
    Status resolve(DrawSource* draws, Resolver* resolver) const noexcept override;
};

}  // namespace fastload

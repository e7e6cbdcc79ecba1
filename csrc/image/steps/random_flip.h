// torchvision's RandomHorizontalFlip and RandomVerticalFlip.
#pragma once

#include <string>

#include "image/plan/step.h"

namespace fastload {

struct RandomHorizontalFlip final : Step {
    double probability = 0.5;

    std::string check() const override;
    Status resolve(DrawSource* draws, Resolver* resolver) const noexcept override;
};

struct RandomVerticalFlip final : Step {
    double probability = 0.5;

    std::string check() const override;
    Status resolve(DrawSource* draws, Resolver* resolver) const noexcept override;
};

}  // namespace fastload

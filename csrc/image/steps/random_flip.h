// torchvision's RandomHorizontalFlip and RandomVerticalFlip, and Pillow's flips, which are not random.
#pragma once

#include "image/plan/step.h"

namespace fastload {

struct RandomHorizontalFlip final : MaybeStep {
    Status resolve(DrawSource* draws, Resolver* resolver) const noexcept override;
};

struct RandomVerticalFlip final : MaybeStep {
    Status resolve(DrawSource* draws, Resolver* resolver) const noexcept override;
};

}  // namespace fastload

// torchvision's RandomHorizontalFlip and RandomVerticalFlip, and Pillow's flips, which are not random.
#pragma once

#include <optional>
#include <string>

#include "image/plan/step.h"

namespace fastload {

struct RandomHorizontalFlip final : Step {
    std::optional<double> probability;  // none: always, and without a draw

    std::string check() const override;
    bool is_random() const noexcept override { return probability.has_value(); }
    Status resolve(DrawSource* draws, Resolver* resolver) const noexcept override;
};

struct RandomVerticalFlip final : Step {
    std::optional<double> probability;  // none: always, and without a draw

    std::string check() const override;
    bool is_random() const noexcept override { return probability.has_value(); }
    Status resolve(DrawSource* draws, Resolver* resolver) const noexcept override;
};

}  // namespace fastload

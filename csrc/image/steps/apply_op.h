// torchvision's transforms that run one operation: RandomInvert, RandomPosterize, Grayscale and others.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "image/plan/step.h"
#include "image/steps/pixel_op.h"

namespace fastload {

// Runs `op` with `probability`; always, and without a draw, if there is none.
struct ApplyOp final : Step {
    std::shared_ptr<const PixelOp> op;
    std::optional<double> probability;

    std::string check() const override;
    std::optional<LongSize> size_after(std::optional<ImageSize> before) const override;
    bool is_random() const noexcept override { return probability.has_value(); }
    Status resolve(DrawSource* draws, Resolver* resolver) const noexcept override;
};

}  // namespace fastload

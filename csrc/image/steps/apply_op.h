// torchvision's transforms that run one operation: RandomInvert, RandomPosterize, Grayscale and others.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "image/plan/step.h"
#include "image/steps/pixel_op.h"

namespace fastload {

struct ApplyOp final : MaybeStep {
    std::shared_ptr<const PixelOp> op;

    std::string check() const override;
    std::optional<LongSize> size_after(std::optional<ImageSize> before) const override;
    Status resolve(DrawSource* draws, Resolver* resolver) const noexcept override;
};

}  // namespace fastload

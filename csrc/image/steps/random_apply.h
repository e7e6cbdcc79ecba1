// torchvision's RandomApply, and its transforms that run one operation: RandomInvert, RandomPosterize, Grayscale and
// others.
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

// Runs all of `steps` with `probability`, or none.
struct RandomApply final : Step {
    double probability = 0.5;
    TorchvisionFamily family = TorchvisionFamily::kV1;
    Steps steps;

    std::string check() const override;
    std::optional<LongSize> size_after(std::optional<ImageSize> before) const override;
    std::size_t max_operations() const noexcept override { return count_operations(steps); }
    Status resolve(DrawSource* draws, Resolver* resolver) const noexcept override;
    std::shared_ptr<Step> with_torch_exp(const FindTorchExp& find) const override;
};

}  // namespace fastload

// torchvision's RandomApply.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "image/plan/step.h"
#include "image/random/torchvision_family.h"

namespace fastload {

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

// torchvision's AutoAugment.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "image/plan/step.h"
#include "image/steps/policy_choice.h"

namespace fastload {

// Runs both operations of one of `policies`, each with its probability; they have one bin.
struct AutoAugment final : Step {
    using Policy = std::array<std::shared_ptr<const PolicyChoice>, 2>;

    std::vector<Policy> policies;
    TorchvisionFamily family = TorchvisionFamily::kV1;

    std::string check() const override;
    std::optional<LongSize> size_after(std::optional<ImageSize> before) const override;
    std::size_t max_operations() const noexcept override { return 2; }
    Status resolve(DrawSource* draws, Resolver* resolver) const noexcept override;
};

}  // namespace fastload

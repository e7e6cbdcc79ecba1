// torchvision's RandAugment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "image/plan/step.h"
#include "image/steps/policy_choice.h"

namespace fastload {

// Runs `num_ops` of `choices`, which have one bin, one after the other.
struct RandAugment final : Step {
    static constexpr std::int32_t kMaxOps = 16;

    std::int32_t num_ops = 0;
    PolicyChoices choices;
    TorchvisionFamily family = TorchvisionFamily::kV1;

    std::string check() const override;
    std::optional<LongSize> size_after(std::optional<ImageSize> before) const override {
        return size_after_any(choices, before);
    }
    std::size_t max_operations() const noexcept override { return static_cast<std::size_t>(num_ops); }
    Status resolve(DrawSource* draws, Resolver* resolver) const noexcept override;
};

}  // namespace fastload

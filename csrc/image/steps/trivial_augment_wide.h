// torchvision's TrivialAugmentWide.
#pragma once

#include <optional>
#include <string>

#include "image/plan/step.h"
#include "image/steps/policy_choice.h"

namespace fastload {

// Runs one of `choices`.
struct TrivialAugmentWide final : Step {
    PolicyChoices choices;
    TorchvisionFamily family = TorchvisionFamily::kV1;

    std::string check() const override { return check_choices("choices", choices); }
    std::optional<LongSize> size_after(std::optional<ImageSize> before) const override {
        return size_after_any(choices, before);
    }
    Status resolve(DrawSource* draws, Resolver* resolver) const noexcept override {
        list_drawn_choice(choices, family, draws, resolver);
        return Status::ok();
    }
};

}  // namespace fastload

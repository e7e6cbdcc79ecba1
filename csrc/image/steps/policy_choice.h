// The choices of torchvision's RandAugment, TrivialAugmentWide and AutoAugment: each operation in each strength.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "image/plan/step.h"
#include "image/random/torchvision_family.h"
#include "image/steps/pixel_op.h"

namespace fastload {

// One operation in all its strengths: ops[bin] or, if it is signed, ops[2 * bin] followed by its negative.
struct PolicyChoice {
    std::vector<std::shared_ptr<const PixelOp>> ops;
    bool is_signed = false;
    std::int32_t num_bins = 1;  // 1: no bin is drawn
    double probability = 1.0;   // AutoAugment's

    std::string check() const;
    // `before` if no operation changes the size, otherwise nothing.
    std::optional<ImageSize> size_after(std::optional<ImageSize> before) const;

    const PixelOp& op(std::uint32_t bin, bool is_negative) const noexcept {
        return *ops[is_signed ? 2 * bin + (is_negative ? 1 : 0) : bin];
    }
    // Draws a bin, and then a sign.
    const PixelOp& draw(TorchvisionFamily family, DrawSource* draws) const noexcept;
};

using PolicyChoices = std::vector<std::shared_ptr<const PolicyChoice>>;

// The first problem of `choices`, which must not be empty; `name` is the word for them in the message.
std::string check_choices(const std::string& name, const PolicyChoices& choices);

// Each operation may run, alone or not at all, so all must leave the size as it is.
std::optional<ImageSize> size_after_any(const PolicyChoices& choices, std::optional<ImageSize> before);

// Draws one of `choices` and lists the operations that it draws.
void list_drawn_choice(const PolicyChoices& choices, TorchvisionFamily family, DrawSource* draws,
                       Resolver* resolver) noexcept;

}  // namespace fastload

// torchvision's RandAugment, TrivialAugmentWide and AutoAugment, which choose from operations in several strengths.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "image/plan/step.h"
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

// Steps that draw from choices. Each operation may run, alone or not at all, so all must leave the size as it is.
struct ChoosingStep : Step {
    PolicyChoices choices;
    TorchvisionFamily family = TorchvisionFamily::kV1;

    std::string check() const override;
    std::optional<LongSize> size_after(std::optional<ImageSize> before) const final;

  protected:
    // Draws a choice, and lists the operation that it draws.
    void list_one(DrawSource* draws, Resolver* resolver) const noexcept;
};

// Runs `num_ops` of `choices`, which have one bin, one after the other.
struct RandAugment final : ChoosingStep {
    static constexpr std::int32_t kMaxOps = 16;

    std::int32_t num_ops = 0;

    std::string check() const override;
    std::size_t max_operations() const noexcept override { return static_cast<std::size_t>(num_ops); }
    Status resolve(DrawSource* draws, Resolver* resolver) const noexcept override;
};

// Runs one of `choices`.
struct TrivialAugmentWide final : ChoosingStep {
    Status resolve(DrawSource* draws, Resolver* resolver) const noexcept override;
};

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

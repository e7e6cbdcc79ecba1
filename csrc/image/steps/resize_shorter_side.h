// torchvision's Resize to one size.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "image/plan/step.h"
#include "image/resize/resize_plan.h"

namespace fastload {

// The shorter side becomes `size`, and `max_size` bounds the longer one.
struct ResizeShorterSide final : Step {
    std::int32_t size = 0;
    std::optional<std::int32_t> max_size;
    Interpolation interpolation = Interpolation::kBilinear;

    std::string check() const override;
    std::optional<LongSize> size_after(std::optional<ImageSize> before) const override;
    bool is_random() const noexcept override { return false; }
    Status resolve(DrawSource* draws, Resolver* resolver) const noexcept override;

  private:
    // Sides are truncated; they may become 0.
    LongSize size_of(ImageSize image) const noexcept;
};

}  // namespace fastload

// Pillow's Image.crop with a box inside of the image.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "image/plan/step.h"

namespace fastload {

struct FixedCrop final : Step {
    std::int32_t left = 0;
    std::int32_t top = 0;
    std::int32_t height = 0;
    std::int32_t width = 0;

    std::string check() const override;
    std::optional<LongSize> size_after(std::optional<ImageSize>) const override { return LongSize(width, height); }
    bool is_random() const noexcept override { return false; }
    // Fails with kInvalidGeometry if the box does not lie inside of the image.
    Status resolve(DrawSource* draws, Resolver* resolver) const noexcept override;
};

}  // namespace fastload

// torchvision's CenterCrop.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "image/plan/step.h"

namespace fastload {

// Smaller images are padded, the odd pixel at the right and at the bottom; offsets are rounded half to even.
struct CenterCrop final : Step {
    std::int32_t height = 0;
    std::int32_t width = 0;

    std::string check() const override;
    std::optional<LongSize> size_after(std::optional<ImageSize>) const override { return LongSize(width, height); }
    bool is_random() const noexcept override { return false; }
    Status resolve(DrawSource* draws, Resolver* resolver) const noexcept override;
};

PaddedCrop center_crop(ImageSize image, ImageSize crop) noexcept;

}  // namespace fastload

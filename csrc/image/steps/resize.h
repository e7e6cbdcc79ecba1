// torchvision's Resize to a height and a width.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "image/plan/step.h"
#include "image/resize/resize_plan.h"

namespace fastload {

struct Resize final : Step {
    std::int32_t height = 0;
    std::int32_t width = 0;
    Interpolation interpolation = Interpolation::kBilinear;

    std::string check() const override;
    std::optional<LongSize> size_after(std::optional<ImageSize>) const override { return LongSize(width, height); }
    bool is_random() const noexcept override { return false; }
    Status resolve(DrawSource* draws, Resolver* resolver) const noexcept override;
};

// Lists a resize; every step that resizes calls this. An image that already has the size is left alone, as in
// torchvision and in Pillow.
void resize_image(ImageSize to, Interpolation interpolation, Resolver* resolver) noexcept;

// A resize of an image of shape.from that changes something, with any interpolation but kNearest.
void filter_image(const ResizeShape& shape, Interpolation interpolation, Resolver* resolver) noexcept;

}  // namespace fastload

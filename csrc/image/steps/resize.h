// torchvision's Resize, and Pillow's Image.resize with a box inside of the image.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "image/plan/step.h"
#include "image/resize/resize_plan.h"

namespace fastload {

struct Resize final : SizedStep {
    Interpolation interpolation = Interpolation::kBilinear;

    bool is_random() const noexcept override { return false; }
    Status resolve(DrawSource* draws, Resolver* resolver) const noexcept override;
};

// Lists a resize; every step that resizes calls this. An image that already has the size is left alone, as in
// torchvision and in Pillow.
void resize_image(ImageSize to, Interpolation interpolation, Resolver* resolver) noexcept;

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

// For any interpolation but kNearest, which is an affine transform in Pillow.
struct BoxResize final : SizedStep {
    std::array<float, 4> box{};  // left, top, right, bottom
    Interpolation interpolation = Interpolation::kBilinear;

    std::string check() const override;
    bool is_random() const noexcept override { return false; }
    // Fails with kInvalidGeometry if the box does not lie inside of the image.
    Status resolve(DrawSource* draws, Resolver* resolver) const noexcept override;
};

}  // namespace fastload

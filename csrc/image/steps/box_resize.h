// Pillow's Image.resize with a box inside of the image.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "image/plan/step.h"
#include "image/resize/resize_plan.h"

namespace fastload {

// For any interpolation but kNearest, which is an affine transform in Pillow.
struct BoxResize final : Step {
    std::array<float, 4> box{};  // left, top, right, bottom
    std::int32_t height = 0;
    std::int32_t width = 0;
    Interpolation interpolation = Interpolation::kBilinear;

    std::string check() const override;
    std::optional<LongSize> size_after(std::optional<ImageSize>) const override { return LongSize(width, height); }
    bool is_random() const noexcept override { return false; }
    // Fails with kInvalidGeometry if the box does not lie inside of the image.
    Status resolve(DrawSource* draws, Resolver* resolver) const noexcept override;
};

}  // namespace fastload

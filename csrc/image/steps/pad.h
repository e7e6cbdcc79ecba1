// torchvision's Pad.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "image/pixels/padding.h"
#include "image/plan/step.h"

namespace fastload {

struct Pad final : Step, Padding {
    std::string check() const override;
    std::optional<LongSize> size_after(std::optional<ImageSize> before) const override;
    bool is_random() const noexcept override { return false; }
    Status resolve(DrawSource* draws, Resolver* resolver) const noexcept override;
};

// What every step that pads comes to. Fails with kInvalidGeometry where no image can have the size that comes out.
Status pad_image(const Padding& padding, Resolver* resolver) noexcept;

}  // namespace fastload

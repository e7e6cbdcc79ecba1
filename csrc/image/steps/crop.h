// torchvision's CenterCrop and RandomCrop, and Pillow's Image.crop with a box inside of the image.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "image/plan/placement.h"
#include "image/plan/resolver.h"
#include "image/plan/step.h"
#include "image/random/torchvision_family.h"
#include "image/steps/pad.h"

namespace fastload {

// A crop of the whole image is left out.
void crop_image(const PaddedCrop& crop, Resolver* resolver) noexcept;

// Smaller images are padded, the odd pixel at the right and at the bottom; offsets are rounded half to even.
struct CenterCrop final : SizedStep {
    bool is_random() const noexcept override { return false; }
    Status resolve(DrawSource* draws, Resolver* resolver) const noexcept override;
};

PaddedCrop center_crop(ImageSize image, ImageSize crop) noexcept;

struct FixedCrop final : SizedStep {
    std::int32_t left = 0;
    std::int32_t top = 0;

    std::string check() const override;
    bool is_random() const noexcept override { return false; }
    // Fails with kInvalidGeometry if the box does not lie inside of the image.
    Status resolve(DrawSource* draws, Resolver* resolver) const noexcept override;
};

struct RandomCrop final : SizedStep {
    bool pad_if_needed = false;
    PaddingMode padding_mode = PaddingMode::kConstant;
    RgbFill fill{};
    TorchvisionFamily family = TorchvisionFamily::kV1;

    std::size_t max_operations() const noexcept override { return 2; }  // a padding and a crop
    Status resolve(DrawSource* draws, Resolver* resolver) const noexcept override;

    // The padding that an image needs to reach the size of the crop: all missing pixels, on both sides.
    Padding padding_of(ImageSize image) const noexcept;
};

}  // namespace fastload

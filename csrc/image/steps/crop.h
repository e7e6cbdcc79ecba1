// torchvision's CenterCrop, RandomCrop and RandomResizedCrop, and Pillow's Image.crop with a box inside of the image.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "image/plan/placement.h"
#include "image/plan/resolver.h"
#include "image/plan/step.h"
#include "image/resize/resize_plan.h"
#include "image/steps/pad.h"
#include "image/steps/random_box.h"

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

struct RandomResizedCrop final : SizedStep, RandomBoxRule {
    Interpolation interpolation = Interpolation::kBilinear;

    std::string check() const override;
    std::size_t max_operations() const noexcept override { return 2; }  // a crop and a resize
    Status resolve(DrawSource* draws, Resolver* resolver) const noexcept override;
    std::shared_ptr<Step> with_torch_exp(const FindTorchExp& find) const override;
};

// Makes up to ten attempts at a box that fits into the image, otherwise returns the largest central one whose ratio is
// in range. Width or height may be 0 for absurd ratios; torchvision then fails in the resize after it.
Region choose_random_box(ImageSize image, const RandomBoxRule& rule, DrawSource* draws) noexcept;

}  // namespace fastload

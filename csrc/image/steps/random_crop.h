// torchvision's RandomCrop.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "image/plan/step.h"
#include "image/random/torchvision_family.h"
#include "image/steps/pad.h"

namespace fastload {

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

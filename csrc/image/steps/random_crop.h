// torchvision's RandomCrop.
#pragma once

#include <cstdint>

#include "base/image_view.h"
#include "image/pixels/padding.h"
#include "image/random/draw_source.h"
#include "image/random/torchvision_version.h"

namespace fastload {

struct RandomCropRule {
    TorchvisionVersion draws = TorchvisionVersion::kV1;
    bool is_padded_if_needed = false;
    Padding filling;  // its mode and fill are those of the padding
};

// The padding that an image needs to reach the size of the crop: the whole of what lacks, on both sides.
Padding padding_to_crop(ImageSize image, ImageSize crop, const RandomCropRule& rule) noexcept;

// Where the crop lies in an image that is as large at least.
Region choose_random_crop(ImageSize image, ImageSize crop, TorchvisionVersion version, DrawSource* draws) noexcept;

}  // namespace fastload

// Position of the stored pixels on the image that the transforms so far have made.
#pragma once

#include <cstdint>

#include "base/image_view.h"

namespace fastload {

// A part of an image and zeros around it.
struct PaddedCrop {
    Region inside;
    std::int32_t pad_left = 0;
    std::int32_t pad_top = 0;
    std::int32_t pad_right = 0;
    std::int32_t pad_bottom = 0;

    std::int32_t width() const noexcept { return pad_left + inside.width + pad_right; }
    std::int32_t height() const noexcept { return pad_top + inside.height + pad_bottom; }
    bool is_padded() const noexcept { return pad_left != 0 || pad_top != 0 || pad_right != 0 || pad_bottom != 0; }
};

// An image of `size` that is zero outside of `source`, a part of some stored pixels. `source` lies with its top left
// corner at (left, top), mirrored or not. Crops, padding and flips only change this description; pixels move once, at
// the next resize or in the last write. Example: a stored 500x375 image, center-cropped to 224x224 and flipped, is
// source {138, 76, 224, 224} at (0, 0), mirrored; another crop to columns [0, 100) makes source {262, 76, 100, 224}.
struct Placement {
    ImageSize size;
    Region source;
    std::int32_t left = 0;
    std::int32_t top = 0;
    bool is_mirrored = false;

    static Placement of_whole(ImageSize image) noexcept {
        return {image, {0, 0, image.width, image.height}, 0, 0, false};
    }

    void crop(const PaddedCrop& crop) noexcept;
    void flip() noexcept;

    // The stored pixels that `region` of the image shows, if all of it is stored and not mirrored.
    bool find(const Region& region, Region* stored) const noexcept;

    // True if the stored pixels, cropped to `source`, are the image.
    bool is_plain() const noexcept {
        return !is_mirrored && source.width == size.width && source.height == size.height;
    }
};

}  // namespace fastload

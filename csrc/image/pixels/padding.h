// Rows and columns around an image: torchvision's pad on PIL images.
#pragma once

#include <cstdint>

#include "base/aligned_buffer.h"
#include "base/image_view.h"
#include "base/status.h"
#include "image/steps/crop.h"
#include "image/steps/pixel_op.h"

namespace fastload {

enum class PaddingMode : std::uint8_t {
    kConstant,
    kEdge,       // the outermost pixel again
    kReflect,    // mirrored without it: 3 2 | 1 2 3 | 2 1
    kSymmetric,  // mirrored with it: 2 1 | 1 2 3 | 3 2
};

// What is put around an image.
struct Padding {
    std::int32_t left = 0;
    std::int32_t top = 0;
    std::int32_t right = 0;
    std::int32_t bottom = 0;
    PaddingMode mode = PaddingMode::kConstant;
    RgbFill fill{};  // of kConstant

    bool is_empty() const noexcept { return left == 0 && top == 0 && right == 0 && bottom == 0; }
    // Zeros need no pixel to be moved: a placement describes them.
    bool is_zeros() const noexcept { return mode == PaddingMode::kConstant && fill == RgbFill{}; }
};

// A padding of zeros as a crop of the whole image.
PaddedCrop zeros_around(ImageSize image, const Padding& padding) noexcept;

// Writes all of `destination`, which has the size that comes out and does not overlap `source`. Mirroring goes on where
// the padding is wider than the image. Fails with kOutOfMemory only.
Status pad_image(const PlanarImageView& source, const Padding& padding, const PlanarImageView& destination,
                 AlignedBuffer* scratch) noexcept;

}  // namespace fastload

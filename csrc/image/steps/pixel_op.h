// The operations on decoded pixels that torchvision runs on PIL images, with the bytes that Pillow gives.
#pragma once

#include <array>
#include <cstdint>

#include "base/aligned_buffer.h"
#include "base/image_view.h"
#include "base/status.h"

namespace fastload {

enum class PixelOpKind : std::uint8_t {
    kIdentity,
    kBrightness,  // ImageEnhance, by `factor`
    kContrast,
    kSaturation,  // ImageEnhance.Color
    kSharpness,
    kHue,        // by `factor` of the colour circle, -0.5..0.5
    kPosterize,  // to `bits`
    kSolarize,   // from `threshold` on
    kAutocontrast,
    kEqualize,
    kInvert,
    kGrayscale,  // luma in all three channels
    kAffine,     // nearest neighbour: pixel (x, y) comes from (a x + b y + c, d x + e y + f) of `matrix`, else `fill`
    kRotate90,   // counter-clockwise; width and height change places
    kRotate180,
    kRotate270,
};

using RgbFill = std::array<std::uint8_t, 3>;

// Each kind reads the members it needs.
struct PixelOp {
    PixelOpKind kind = PixelOpKind::kIdentity;
    std::uint8_t bits = 8;
    RgbFill fill{};
    double factor = 1.0;
    double threshold = 0.0;
    std::array<double, 6> matrix{};
};

// The size behind an operation.
ImageSize size_after(const PixelOp& op, ImageSize size) noexcept;

// True where run_pixel_op changes the pixels where they are; else it needs a place for the result.
bool is_in_place(const PixelOp& op) noexcept;

// Applies `op` to `pixels`, or, where it is not in place, writes the result of size_after() to `destination`, which
// does not overlap. Tables of positions go to `scratch`. Fails with kOutOfMemory only.
Status run_pixel_op(const PixelOp& op, const PlanarImageView& pixels, const PlanarImageView& destination,
                    AlignedBuffer* scratch) noexcept;

}  // namespace fastload

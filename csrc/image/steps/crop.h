// Sizes and boxes as torchvision computes them for PIL images.
#pragma once

#include <cstdint>

#include "base/image_view.h"
#include "image/random/draw_source.h"

namespace fastload {

// The largest width or height of anything a user asks for: what a JPEG can say.
constexpr std::int32_t kMaxImageSide = 65535;
// The largest side of a source, which need not be a JPEG, and of an image between two steps. Resize(256) makes 76800
// columns of a 300x1 image, and torchvision takes that; beyond this it would take gigabytes.
constexpr std::int32_t kMaxResizedSide = 1 << 20;

// Rounds a half to the even neighbour, as Python's round() does.
double round_half_even(double value) noexcept;

// Parameters of RandomResizedCrop's box. The bounds are float32 as in torch's draws; the limits for the fallback stay
// double as in Python.
struct RandomBoxRule {
    double scale[2] = {0.08, 1.0};
    double ratio[2] = {3.0 / 4.0, 4.0 / 3.0};
    LogRange log_ratio = {-0.28768207F, 0.28768207F, nullptr};  // torch.log of float32 `ratio`
};

// The box of torchvision's RandomResizedCrop.get_params with `draws`: up to ten attempts, each a float32 area
// share and a float32 log aspect ratio; then the row, then the column of an accepted box; else the largest central box
// whose ratio is in range. Width or height may be 0 for absurd ratios, where torchvision fails in the resize after it.
Region choose_random_box(ImageSize image, const RandomBoxRule& rule, DrawSource* draws) noexcept;

// The size torchvision's Resize(size, max_size) makes of an image: the shorter side becomes `size`; `max_size` (0:
// none) bounds the longer one. Sides are truncated. They may come out as 0 or beyond kMaxResizedSide; the caller
// checks.
struct LongSize {
    std::int64_t width;
    std::int64_t height;
};
LongSize resized_shorter_side(ImageSize image, std::int32_t size, std::int32_t max_size) noexcept;

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

// CenterCrop: smaller images are padded, the odd pixel at the right and at the bottom; offsets are rounded half to
// even.
PaddedCrop center_crop(ImageSize image, ImageSize crop) noexcept;

}  // namespace fastload

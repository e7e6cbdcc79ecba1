// Colour against luma: ImageEnhance.Color, and torchvision's to_grayscale with three channels. In place.
#pragma once

#include "base/image_view.h"

namespace fastload {

// `factor` is finite.
void adjust_saturation(float factor, const PlanarImageView& pixels) noexcept;
void make_gray(const PlanarImageView& pixels) noexcept;

}  // namespace fastload

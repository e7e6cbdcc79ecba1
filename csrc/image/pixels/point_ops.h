// Operations that look each value of a channel up in a table: ImageOps and two of ImageEnhance. All work in place.
#pragma once

#include "base/image_view.h"

namespace fastload {

// `factor` is finite.
void adjust_brightness(float factor, const PlanarImageView& pixels) noexcept;
// Around the mean luma of the image, rounded to an integer.
void adjust_contrast(float factor, const PlanarImageView& pixels) noexcept;
// Keeps the upper `bits` (1..8) of each value; 0 keeps none.
void posterize(int bits, const PlanarImageView& pixels) noexcept;
// Inverts values that are not below `threshold`.
void solarize(double threshold, const PlanarImageView& pixels) noexcept;
void invert(const PlanarImageView& pixels) noexcept;
// Stretches each channel to 0..255.
void autocontrast(const PlanarImageView& pixels) noexcept;
// Evens out each channel's histogram.
void equalize(const PlanarImageView& pixels) noexcept;

}  // namespace fastload

// ImageEnhance.Sharpness: a blend with the image behind Pillow's 3x3 SMOOTH filter.
#pragma once

#include "base/image_view.h"

namespace fastload {

// `factor` is finite. The outermost pixels stay as they are, and so do images with a side below 3. `destination` has
// the size of `source` and does not overlap it.
void adjust_sharpness(float factor, const PlanarImageView& source, const PlanarImageView& destination) noexcept;

}  // namespace fastload

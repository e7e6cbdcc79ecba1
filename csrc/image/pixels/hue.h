// torchvision's adjust_hue on a PIL image: to Pillow's HSV bytes, a turn of the hue byte, and back. In place.
#pragma once

#include "base/image_view.h"

namespace fastload {

// `factor` is in [-0.5, 0.5]; the hue byte turns by factor * 255, truncated, and wraps. A factor of 0 is no identity:
// the way through HSV bytes loses precision.
void adjust_hue(double factor, const PlanarImageView& pixels) noexcept;

}  // namespace fastload

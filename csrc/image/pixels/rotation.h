// Pillow's transposes. `destination` does not overlap `source` and has the size that comes out.
#pragma once

#include "base/image_view.h"

namespace fastload {

void flip_vertically(const PlanarImageView& source, const PlanarImageView& destination) noexcept;
// Counter-clockwise.
void rotate_90(const PlanarImageView& source, const PlanarImageView& destination) noexcept;
void rotate_180(const PlanarImageView& source, const PlanarImageView& destination) noexcept;
void rotate_270(const PlanarImageView& source, const PlanarImageView& destination) noexcept;

}  // namespace fastload

// Pillow's Image.transform(AFFINE, NEAREST) to an image of the same size.
#pragma once

#include <array>

#include "base/aligned_buffer.h"
#include "base/image_view.h"
#include "base/status.h"
#include "image/pixels/fill_image.h"

namespace fastload {

// Pixel (x, y) of `destination` comes from (a x + b y + c, d x + e y + f) of `source`, both taken at pixel centres, for
// finite a, b, c, d, e, f = `matrix`; it is `fill` where that is outside. Both have the same size and do not overlap.
Status transform_affine(const std::array<double, 6>& matrix, const RgbFill& fill, const PlanarImageView& source,
                        const PlanarImageView& destination, AlignedBuffer* scratch) noexcept;

}  // namespace fastload

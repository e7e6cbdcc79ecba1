// Affine interpolation as in Pillow's Image.transform(AFFINE): its ImagingGenericTransform with the bilinear and the
// bicubic filter.
#pragma once

#include <cstdint>

#include "base/image_view.h"

namespace fastload {

// Pixels x to x + count - 1 of row y of the result.
struct AffineRun {
    const double* matrix;  // six finite numbers
    PlanarImageView source;
    std::uint8_t* to[3];  // where pixel x is written, in each plane
    std::int32_t x;
    std::int32_t y;
    std::int32_t count;
};

// Pixel (x, y) becomes the value of `source` at (a x + b y + c, d x + e y + f), both taken at pixel centres, for a, b,
// c, d, e, f = `matrix`. It stays as it is if that point is outside of `source`. Sums are double, each in Pillow's
// order.
using AffineFunction = void(const AffineRun& run) noexcept;

AffineFunction affine_bilinear_scalar, affine_bilinear_avx2;
AffineFunction affine_bicubic_scalar, affine_bicubic_avx2;

}  // namespace fastload

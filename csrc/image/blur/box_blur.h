// Pillow's box filter: passes of means over the pixels around each one, in integers.
#pragma once

#include <cstdint>

#include "base/aligned_buffer.h"
#include "base/image_view.h"
#include "base/status.h"
#include "kernels/box_blur.h"

namespace fastload {

// The largest radius, in pixels.
constexpr float kMaxBoxRadius = 65535.0F;

// For a radius in 0..kMaxBoxRadius, which need not be whole.
BoxWeights box_weights(float radius) noexcept;

// The radius for which `passes` passes of a box blur have the variance of a Gaussian. Gwosdek et al., "Theoretical
// foundations of Gaussian convolution by extended box filtering", 2011: equations 7, 11 and 14.
float gaussian_box_radius(float sigma, std::int32_t passes) noexcept;

// Runs `passes` passes along the rows, then as many along the columns, each rounded to uint8. A radius of 0 has none.
// `destination` has the size of `source` and does not overlap it. Fails with kOutOfMemory only.
Status box_blur(float x_radius, float y_radius, std::int32_t passes, BoxBlurFunction kernel,
                const PlanarImageView& source, const PlanarImageView& destination, AlignedBuffer* scratch) noexcept;

}  // namespace fastload

// Source columns and rows of a nearest-neighbour operation.
#pragma once

#include <cstdint>

#include "base/aligned_buffer.h"
#include "base/image_view.h"
#include "base/status.h"

namespace fastload {

// The positions that Pillow's scaling reads along an axis of `limit` pixels: the integer part of start + i * step for i
// in [0, count), -1 if that is not in [0, limit). The step is added repeatedly, as in Pillow: the product would differ
// in the last bits.
void find_nearest_positions(double start, double step, std::int32_t limit, std::int32_t count,
                            std::int32_t* positions) noexcept;

// Memory for the positions of all columns and rows of an image of `size`, valid until `scratch` grows.
struct AxisPositions {
    std::int32_t* columns = nullptr;
    std::int32_t* rows = nullptr;
};
Status reserve_positions(ImageSize size, AlignedBuffer* scratch, AxisPositions* positions) noexcept;

// Pixel (x, y) of `destination` becomes (columns[x], rows[y]) of `source`; if one of them is negative it stays as it
// is. Source and destination do not overlap.
void gather_pixels(const PlanarImageView& source, const AxisPositions& positions,
                   const PlanarImageView& destination) noexcept;

// Pillow's resize with NEAREST.
Status resize_nearest(const PlanarImageView& source, const PlanarImageView& destination,
                      AlignedBuffer* scratch) noexcept;

}  // namespace fastload

// Source columns and rows of a nearest-neighbour operation.
#pragma once

#include <cstdint>

#include "base/aligned_buffer.h"
#include "base/image_view.h"
#include "base/status.h"

namespace fastload {

// Along an axis, the middle of pixel i comes from `offset` + (i + 0.5) * `step`.
struct AxisScale {
    double offset;
    double step;
};
// The positions that Pillow reads along an axis of `limit` pixels, -1 where it reads none. The step is added
// repeatedly, as in Pillow: the product would differ in the last bits.
void find_nearest_positions(const AxisScale& scale, std::int32_t limit, std::int32_t count,
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

// Pillow's scaling and translation with NEAREST. Fails with kOutOfMemory only.
Status scale_nearest(const PlanarImageView& source, const AxisScale& columns, const AxisScale& rows,
                     const PlanarImageView& destination, AlignedBuffer* scratch) noexcept;

}  // namespace fastload

// Memory for images between two steps, and the ways from one layout of pixels to another.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/aligned_buffer.h"
#include "base/image_view.h"
#include "base/status.h"

namespace fastload {

Status image_too_large() noexcept;

// Lays the rows of an image of `size` out in `buffer`, aligned as resize kernels ask for.
Status reserve_rows(ImageSize size, AlignedBuffer* buffer, PlanarImageView* rows) noexcept;

// Planes that can be written, and the view of them.
struct WritableStrips {
    std::uint8_t* planes[3];
    StripImageView view;
};
Status reserve_strips(ImageSize size, AlignedBuffer* buffer, WritableStrips* strips) noexcept;

// Rows that do not exist are left as they are in the last strip.
void rows_to_strips(const PlanarImageView& rows, const WritableStrips& strips) noexcept;
void packed_to_strips(const PackedImageView& rgb, const WritableStrips& strips) noexcept;

// The part `region`, inside of the image, of the same rows.
PlanarImageView crop_rows(PlanarImageView rows, const Region& region) noexcept;

}  // namespace fastload

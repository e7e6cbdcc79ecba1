// Memory for images between two steps, and conversions between the layouts of pixels.
#pragma once

#include <cstdint>

#include "base/aligned_buffer.h"
#include "base/image_view.h"
#include "base/status.h"

namespace fastload {

Status image_too_large() noexcept;

// Lays out the rows of an image of `size` in `buffer`, aligned as resize kernels require.
Status reserve_rows(ImageSize size, AlignedBuffer* buffer, PlanarImageView* rows) noexcept;

// Writable planes and the view of them.
struct WritableStrips {
    std::uint8_t* planes[3];
    StripImageView view;
};
Status reserve_strips(ImageSize size, AlignedBuffer* buffer, WritableStrips* strips) noexcept;

// Missing rows are left as they are in the last strip.
void rows_to_strips(const PlanarImageView& rows, const WritableStrips& strips) noexcept;
void packed_to_strips(const PackedImageView& rgb, const WritableStrips& strips) noexcept;

// The part `region`, inside of the image, of the same rows.
PlanarImageView crop_rows(PlanarImageView rows, const Region& region) noexcept;

}  // namespace fastload

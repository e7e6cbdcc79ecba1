// Views of pixels in the two layouts the project uses. Nothing here owns memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fastload {

// A rectangle in pixels, half-open: columns [left, left + width), rows [top, top + height).
struct Region {
    std::int32_t left = 0;
    std::int32_t top = 0;
    std::int32_t width = 0;
    std::int32_t height = 0;

    constexpr bool lies_inside(std::int32_t image_width, std::int32_t image_height) const noexcept {
        return left >= 0 && top >= 0 && width > 0 && height > 0 && width <= image_width && height <= image_height &&
               left <= image_width - width && top <= image_height - height;
    }
};

struct ImageSize {
    std::int32_t width = 0;
    std::int32_t height = 0;
};

// Note [column strips]
// Decoded pixels are planar, and a plane is a stack of strips of 8 rows. In a strip, pixel (x, r) is byte 8 * x + r:
// the eight pixels of a column are neighbours. The inverse DCT ends in columns, so a block is one 64-byte store;
// horizontal filters work on 8 rows at once; elementwise steps do not care. Example: width 500 gives strips of 4000
// bytes; pixel (3, 10) is in strip 1 at byte 8 * 3 + 2 = 26. Writers leave at least kStripSlackBytes readable after
// each plane.
constexpr std::size_t kStripRows = 8;
constexpr std::size_t kStripSlackBytes = 64;

// Three planes (R, G, B) in column strips, and the window [left, left + width) x [top, top + height) of them. `left`
// and `top` need not be multiples of 8.
struct StripImageView {
    const std::uint8_t* planes[3] = {};
    std::size_t strip_stride_bytes = 0;  // from a strip to the one below it
    std::int32_t left = 0;
    std::int32_t top = 0;
    std::int32_t width = 0;
    std::int32_t height = 0;

    // The part `region` of the same pixels. `region` is relative to this view and lies inside it.
    StripImageView crop(const Region& region) const noexcept {
        StripImageView view = *this;
        view.left += region.left;
        view.top += region.top;
        view.width = region.width;
        view.height = region.height;
        return view;
    }

    std::uint8_t at(int plane, std::int32_t x, std::int32_t y) const noexcept {
        const auto row = static_cast<std::size_t>(top + y);
        const auto column = static_cast<std::size_t>(left + x);
        return planes[plane][row / kStripRows * strip_stride_bytes + kStripRows * column + row % kStripRows];
    }
};

// Three planes (R, G, B) of ordinary rows: pixel (x, y) is byte y * row_stride_bytes + x.
struct PlanarImageView {
    std::uint8_t* planes[3] = {};
    std::size_t row_stride_bytes = 0;
    std::int32_t width = 0;
    std::int32_t height = 0;

    std::uint8_t* row(int plane, std::int32_t y) const noexcept {
        return planes[plane] + static_cast<std::size_t>(y) * row_stride_bytes;
    }
};

// Interleaved R, G, B bytes as Pillow's tobytes() gives them: pixel (x, y) is at y * row_stride_bytes + 3 * x.
struct PackedImageView {
    const std::uint8_t* pixels = nullptr;
    std::size_t row_stride_bytes = 0;
    std::int32_t width = 0;
    std::int32_t height = 0;

    // `region` must lie inside.
    PackedImageView crop(const Region& region) const noexcept {
        const std::uint8_t* const first = pixels + static_cast<std::size_t>(region.top) * row_stride_bytes +
                                          static_cast<std::size_t>(region.left) * 3;
        return {first, row_stride_bytes, region.width, region.height};
    }
};

}  // namespace fastload

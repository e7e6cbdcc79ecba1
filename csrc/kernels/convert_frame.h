// The loop of a last write over its source. The kernels convert runs of pixels.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/image_view.h"
#include "kernels/convert.h"

namespace fastload {

// A Writer has write_run(pixels, count, x, y): `count` pixels starting at `pixels` of the three planes to columns
// [x, x + count) of row y of the result. Rows need no `to_rows`.
template <typename Writer, typename ToRows>
void write_pixels(const Writer& writer, const PlanarImageView& source, const ConvertJob& job, ToRows) noexcept {
    for (std::int32_t y = 0; y < source.height; ++y) {
        const std::size_t offset = static_cast<std::size_t>(y) * source.row_stride_bytes;
        const std::uint8_t* pixels[3] = {source.planes[0] + offset, source.planes[1] + offset,
                                         source.planes[2] + offset};
        writer.write_run(pixels, static_cast<std::size_t>(source.width), static_cast<std::size_t>(job.left),
                         static_cast<std::size_t>(job.top + y));
    }
}

constexpr std::int32_t kTileColumns = 256;

// Turns up to 256 columns of one strip into rows.
struct Tile {
    alignas(64) std::uint8_t rows[3][kStripRows][kTileColumns];
};

// Does the same from strips. `to_rows(strip, width, rows, row_stride_bytes)` turns `width` columns into eight rows with
// room for kTileColumns, and reads no column after them.
template <typename Writer, typename ToRows>
void write_pixels(const Writer& writer, const StripImageView& source, const ConvertJob& job, ToRows to_rows) noexcept {
    constexpr auto kRows = static_cast<std::int32_t>(kStripRows);
    Tile tile;
    for (std::int32_t y = 0; y < source.height;) {
        const std::int32_t first_row = (source.top + y) % kRows;
        const std::int32_t row_count = std::min(kRows - first_row, source.height - y);
        const std::size_t strip = static_cast<std::size_t>(source.top + y) / kStripRows;
        for (std::int32_t x = 0; x < source.width; x += kTileColumns) {
            const std::int32_t columns = std::min(kTileColumns, source.width - x);
            const std::size_t offset =
                strip * source.strip_stride_bytes + kStripRows * static_cast<std::size_t>(source.left + x);
            for (int plane = 0; plane < 3; ++plane) {
                to_rows(source.planes[plane] + offset, static_cast<std::size_t>(columns), tile.rows[plane][0],
                        static_cast<std::size_t>(kTileColumns));
            }
            const std::int32_t left = job.left + (job.is_mirrored ? source.width - x - columns : x);
            for (std::int32_t r = 0; r < row_count; ++r) {
                const std::int32_t row = first_row + r;
                const std::uint8_t* pixels[3] = {tile.rows[0][row], tile.rows[1][row], tile.rows[2][row]};
                writer.write_run(pixels, static_cast<std::size_t>(columns), static_cast<std::size_t>(left),
                                 static_cast<std::size_t>(job.top + y + r));
            }
        }
        y += row_count;
    }
}

}  // namespace fastload

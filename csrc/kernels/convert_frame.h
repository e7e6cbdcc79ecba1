// The loop of a last write over its source. The kernels convert runs of pixels.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/image_view.h"
#include "kernels/convert.h"

namespace fastload {

// The positions of elements in the result.
struct ElementLayout {
    std::size_t width;
    std::size_t plane;
    bool is_channels_last;

    explicit ElementLayout(const ConvertJob& job) noexcept
        : width(static_cast<std::size_t>(job.width)),
          plane(width * static_cast<std::size_t>(job.height)),
          is_channels_last(job.is_channels_last) {}

    std::size_t element(int channel, std::size_t x, std::size_t y) const noexcept {
        const std::size_t pixel = y * width + x;
        const auto c = static_cast<std::size_t>(channel);
        return is_channels_last ? 3 * pixel + c : c * plane + pixel;
    }
};

// A Writer has write_run(pixels, count, x, y): `count` pixels starting at `pixels` of the three planes to columns
// [x, x + count) of row y of the result. Rows need no `to_rows`.
template <typename Writer, typename ToRows>
void write_pixels(const Writer& writer, const PlanarImageView& source, const ConvertJob& job, ToRows) noexcept {
    for (std::int32_t y = 0; y < source.height; ++y) {
        const std::uint8_t* pixels[3] = {source.row(0, y), source.row(1, y), source.row(2, y)};
        writer.write_run(pixels, static_cast<std::size_t>(source.width), static_cast<std::size_t>(job.left),
                         static_cast<std::size_t>(job.top + y));
    }
}

constexpr std::int32_t kTileColumns = 256;

// Does the same from strips. `to_rows(strip, width, rows, row_stride_bytes)` turns `width` columns into eight rows with
// room for kTileColumns, and reads no column after them.
template <typename Writer, typename ToRows>
void write_pixels(const Writer& writer, const StripImageView& source, const ConvertJob& job, ToRows to_rows) noexcept {
    constexpr auto kRows = static_cast<std::int32_t>(kStripRows);
    alignas(64) std::uint8_t tile[3][kStripRows][kTileColumns];
    for (std::int32_t y = 0; y < source.height;) {
        const std::int32_t first_row = (source.top + y) % kRows;
        const std::int32_t row_count = std::min(kRows - first_row, source.height - y);
        const std::size_t strip = static_cast<std::size_t>(source.top + y) / kStripRows;
        for (std::int32_t x = 0; x < source.width; x += kTileColumns) {
            const std::int32_t columns = std::min(kTileColumns, source.width - x);
            const std::size_t offset =
                strip * source.strip_stride_bytes + kStripRows * static_cast<std::size_t>(source.left + x);
            for (int plane = 0; plane < 3; ++plane) {
                to_rows(source.planes[plane] + offset, static_cast<std::size_t>(columns), tile[plane][0],
                        static_cast<std::size_t>(kTileColumns));
            }
            const std::int32_t left = job.left + (job.is_mirrored ? source.width - x - columns : x);
            for (std::int32_t r = 0; r < row_count; ++r) {
                const std::int32_t row = first_row + r;
                const std::uint8_t* pixels[3] = {tile[0][row], tile[1][row], tile[2][row]};
                writer.write_run(pixels, static_cast<std::size_t>(columns), static_cast<std::size_t>(left),
                                 static_cast<std::size_t>(job.top + y + r));
            }
        }
        y += row_count;
    }
}

}  // namespace fastload

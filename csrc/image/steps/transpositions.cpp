#include "image/steps/transpositions.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace fastload {
namespace {

std::uint8_t* row_of(const PlanarImageView& image, int plane, std::int32_t y) noexcept {
    return image.planes[plane] + static_cast<std::size_t>(y) * image.row_stride_bytes;
}

// Columns become rows: pixel (x, y) goes to column to_column(y) of row to_row(x). In squares, so that the written rows
// stay in the cache.
template <typename ToRow, typename ToColumn>
void exchange_axes(const PlanarImageView& source, const PlanarImageView& destination, ToRow to_row,
                   ToColumn to_column) noexcept {
    constexpr std::int32_t kSquare = 32;
    for (int plane = 0; plane < 3; ++plane) {
        for (std::int32_t top = 0; top < source.height; top += kSquare) {
            const std::int32_t bottom = std::min(top + kSquare, source.height);
            for (std::int32_t x = 0; x < source.width; ++x) {
                const std::uint8_t* column = source.planes[plane] + x;
                std::uint8_t* output = row_of(destination, plane, to_row(x));
                for (std::int32_t y = top; y < bottom; ++y) {
                    output[to_column(y)] = column[static_cast<std::size_t>(y) * source.row_stride_bytes];
                }
            }
        }
    }
}

}  // namespace

void flip_vertically(const PlanarImageView& source, const PlanarImageView& destination) noexcept {
    for (int plane = 0; plane < 3; ++plane) {
        for (std::int32_t y = 0; y < source.height; ++y) {
            std::memcpy(row_of(destination, plane, source.height - 1 - y), row_of(source, plane, y),
                        static_cast<std::size_t>(source.width));
        }
    }
}

Status Rotate90::remake(const PlanarImageView& source, const PlanarImageView& destination, Workspace*) const noexcept {
    exchange_axes(
        source, destination, [&](std::int32_t x) { return source.width - 1 - x; }, [](std::int32_t y) { return y; });
    return Status::ok();
}

Status Rotate180::remake(const PlanarImageView& source, const PlanarImageView& destination, Workspace*) const noexcept {
    for (int plane = 0; plane < 3; ++plane) {
        for (std::int32_t y = 0; y < source.height; ++y) {
            const std::uint8_t* row = row_of(source, plane, y);
            std::reverse_copy(row, row + source.width, row_of(destination, plane, source.height - 1 - y));
        }
    }
    return Status::ok();
}

Status Rotate270::remake(const PlanarImageView& source, const PlanarImageView& destination, Workspace*) const noexcept {
    exchange_axes(
        source, destination, [](std::int32_t x) { return x; }, [&](std::int32_t y) { return source.height - 1 - y; });
    return Status::ok();
}

Status Transpose::remake(const PlanarImageView& source, const PlanarImageView& destination, Workspace*) const noexcept {
    exchange_axes(source, destination, [](std::int32_t x) { return x; }, [](std::int32_t y) { return y; });
    return Status::ok();
}

Status Transverse::remake(const PlanarImageView& source, const PlanarImageView& destination,
                          Workspace*) const noexcept {
    exchange_axes(
        source, destination, [&](std::int32_t x) { return source.width - 1 - x; },
        [&](std::int32_t y) { return source.height - 1 - y; });
    return Status::ok();
}

}  // namespace fastload

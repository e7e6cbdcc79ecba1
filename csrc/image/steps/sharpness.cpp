#include "image/steps/sharpness.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "image/pixels/blend.h"

namespace fastload {
namespace {

// The middle columns of one row; `above` and `below` are its neighbours.
//
// Pillow adds nine products with float32 weights 1/13 and 5/13 to 0.5 and truncates. The exact sum is s / 13 + 1/2 with
// an integer s: at least 1/26 away from every integer, which is more than float32 can lose in any order of additions.
// So the quotient (2 s + 13) / 26 in integers is the same.
void sharpen_row(const std::uint8_t* above, const std::uint8_t* row, const std::uint8_t* below, std::size_t width,
                 float factor, std::uint8_t* __restrict output) noexcept {
    for (std::size_t x = 1; x + 1 < width; ++x) {
        const int sum = above[x - 1] + above[x] + above[x + 1] + row[x - 1] + 5 * row[x] + row[x + 1] + below[x - 1] +
                        below[x] + below[x + 1];
        const auto smooth = static_cast<std::uint16_t>(static_cast<std::uint16_t>(2 * sum + 13) / 26);
        output[x] = blend(smooth, row[x], factor);
    }
}

}  // namespace

Status Sharpness::remake(const PlanarImageView& source, const PlanarImageView& destination, Workspace*) const noexcept {
    const auto blend_factor = static_cast<float>(factor);
    const auto width = static_cast<std::size_t>(source.width);
    const auto height = static_cast<std::size_t>(source.height);
    for (int plane = 0; plane < 3; ++plane) {
        for (std::size_t y = 0; y < height; ++y) {
            const std::uint8_t* row = source.planes[plane] + y * source.row_stride_bytes;
            std::uint8_t* output = destination.planes[plane] + y * destination.row_stride_bytes;
            const bool has_neighbours = width >= 3 && y > 0 && y + 1 < height;
            if (!has_neighbours) {
                std::memcpy(output, row, width);
                continue;
            }
            output[0] = row[0];
            sharpen_row(row - source.row_stride_bytes, row, row + source.row_stride_bytes, width, blend_factor, output);
            output[width - 1] = row[width - 1];
        }
    }
    return Status::ok();
}

}  // namespace fastload

#include "image/pixels/pixel_buffers.h"

#include "base/checked_math.h"
#include "kernels/resize.h"
#include "kernels/transpose.h"

namespace fastload {
namespace {

// Lays out three planes of `rows` rows in `buffer`, `stride` bytes apart, and returns their addresses.
Status reserve_planes(std::size_t rows, std::size_t stride, AlignedBuffer* buffer, std::uint8_t** planes) noexcept {
    std::size_t plane_bytes = 0;
    std::size_t total = 0;
    if (!checked_multiply(rows, stride, &plane_bytes) || !checked_add(plane_bytes, kStripSlackBytes, &plane_bytes) ||
        !checked_round_up(plane_bytes, AlignedBuffer::kAlignment, &plane_bytes) ||
        !checked_multiply(plane_bytes, 3, &total)) {
        return image_too_large();
    }
    if (Status status = buffer->reserve(total); !status.is_ok()) return status;
    for (std::size_t plane = 0; plane < 3; ++plane) planes[plane] = buffer->data() + plane * plane_bytes;
    return Status::ok();
}

// Writes one strip of `row_count` rows. Missing rows are left as they are in the strip.
void rows_to_strip(const std::uint8_t* rows, std::size_t row_stride_bytes, std::size_t row_count, std::size_t width,
                   std::uint8_t* strip) noexcept {
    std::size_t x = 0;
    if (row_count == kStripRows) {
        for (; x + 8 <= width; x += 8) {
            transpose_rows_to_columns(rows + x, row_stride_bytes, strip + kStripRows * x);
        }
    }
    for (; x < width; ++x) {
        for (std::size_t r = 0; r < row_count; ++r) strip[kStripRows * x + r] = rows[r * row_stride_bytes + x];
    }
}

}  // namespace

Status image_too_large() noexcept {
    return {StatusCode::kInvalidGeometry, 0, 0, "an image between two steps is too large"};
}

Status reserve_rows(ImageSize size, AlignedBuffer* buffer, PlanarImageView* rows) noexcept {
    std::size_t stride = 0;
    if (!checked_round_up(static_cast<std::size_t>(size.width), kResizeRowAlignment, &stride)) return image_too_large();
    rows->row_stride_bytes = stride;
    rows->width = size.width;
    rows->height = size.height;
    return reserve_planes(static_cast<std::size_t>(size.height), stride, buffer, rows->planes);
}

Status reserve_strips(ImageSize size, AlignedBuffer* buffer, WritableStrips* strips) noexcept {
    std::size_t stride = 0;
    if (!checked_multiply(static_cast<std::size_t>(size.width), kStripRows, &stride)) return image_too_large();
    const std::size_t strip_count = (static_cast<std::size_t>(size.height) + kStripRows - 1) / kStripRows;
    if (Status status = reserve_planes(strip_count, stride, buffer, strips->planes); !status.is_ok()) return status;
    strips->view = {};
    for (int plane = 0; plane < 3; ++plane) strips->view.planes[plane] = strips->planes[plane];
    strips->view.strip_stride_bytes = stride;
    strips->view.width = size.width;
    strips->view.height = size.height;
    return Status::ok();
}

void rows_to_strips(const PlanarImageView& rows, const WritableStrips& strips) noexcept {
    const auto height = static_cast<std::size_t>(rows.height);
    for (int plane = 0; plane < 3; ++plane) {
        for (std::size_t y = 0; y < height; y += kStripRows) {
            rows_to_strip(rows.planes[plane] + y * rows.row_stride_bytes, rows.row_stride_bytes,
                          height - y < kStripRows ? height - y : kStripRows, static_cast<std::size_t>(rows.width),
                          strips.planes[plane] + y / kStripRows * strips.view.strip_stride_bytes);
        }
    }
}

void packed_to_strips(const PackedImageView& rgb, const WritableStrips& strips) noexcept {
    const auto width = static_cast<std::size_t>(rgb.width);
    for (std::size_t y = 0; y < static_cast<std::size_t>(rgb.height); ++y) {
        const std::uint8_t* pixels = rgb.pixels + y * rgb.row_stride_bytes;
        const std::size_t offset = y / kStripRows * strips.view.strip_stride_bytes + y % kStripRows;
        std::uint8_t* red = strips.planes[0] + offset;
        std::uint8_t* green = strips.planes[1] + offset;
        std::uint8_t* blue = strips.planes[2] + offset;
        for (std::size_t x = 0; x < width; ++x) {
            red[kStripRows * x] = pixels[3 * x];
            green[kStripRows * x] = pixels[3 * x + 1];
            blue[kStripRows * x] = pixels[3 * x + 2];
        }
    }
}

PlanarImageView crop_rows(PlanarImageView rows, const Region& region) noexcept {
    const std::size_t offset =
        static_cast<std::size_t>(region.top) * rows.row_stride_bytes + static_cast<std::size_t>(region.left);
    for (std::uint8_t*& plane : rows.planes) plane += offset;
    rows.width = region.width;
    rows.height = region.height;
    return rows;
}

}  // namespace fastload

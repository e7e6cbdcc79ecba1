#include "image/transform_executor.h"

#include "base/checked_math.h"
#include "kernels/transpose.h"

namespace fastload {
namespace {

Status too_large() noexcept { return {StatusCode::kInvalidGeometry, 0, 0, "an image between two steps is too large"}; }

bool is_size(std::int32_t width, std::int32_t height) noexcept {
    return width >= 1 && width <= kMaxImageSide && height >= 1 && height <= kMaxImageSide;
}

// Lays three planes of `rows` rows out in `buffer`, `stride` bytes apart, and returns where they begin.
Status reserve_planes(std::size_t rows, std::size_t stride, AlignedBuffer* buffer, std::uint8_t** planes) noexcept {
    std::size_t plane_bytes = 0;
    std::size_t total = 0;
    if (!checked_multiply(rows, stride, &plane_bytes) || !checked_add(plane_bytes, kStripSlackBytes, &plane_bytes) ||
        !checked_round_up(plane_bytes, AlignedBuffer::kAlignment, &plane_bytes) ||
        !checked_multiply(plane_bytes, 3, &total)) {
        return too_large();
    }
    if (Status status = buffer->reserve(total); !status.is_ok()) return status;
    for (std::size_t plane = 0; plane < 3; ++plane) planes[plane] = buffer->data() + plane * plane_bytes;
    return Status::ok();
}

Status reserve_rows(ImageSize size, AlignedBuffer* buffer, PlanarImageView* rows) noexcept {
    std::size_t stride = 0;
    if (!checked_round_up(static_cast<std::size_t>(size.width), kResizeRowAlignment, &stride)) return too_large();
    rows->row_stride_bytes = stride;
    rows->width = size.width;
    rows->height = size.height;
    return reserve_planes(static_cast<std::size_t>(size.height), stride, buffer, rows->planes);
}

// Planes that can be written, and the view of them.
struct WritableStrips {
    std::uint8_t* planes[3];
    StripImageView view;
};

Status reserve_strips(ImageSize size, AlignedBuffer* buffer, WritableStrips* strips) noexcept {
    std::size_t stride = 0;
    if (!checked_multiply(static_cast<std::size_t>(size.width), kStripRows, &stride)) return too_large();
    const std::size_t strip_count = (static_cast<std::size_t>(size.height) + kStripRows - 1) / kStripRows;
    if (Status status = reserve_planes(strip_count, stride, buffer, strips->planes); !status.is_ok()) return status;
    strips->view = {};
    for (int plane = 0; plane < 3; ++plane) strips->view.planes[plane] = strips->planes[plane];
    strips->view.strip_stride_bytes = stride;
    strips->view.width = size.width;
    strips->view.height = size.height;
    return Status::ok();
}

// One strip of `row_count` rows. Rows that do not exist are left as they are in the strip.
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

PlanarImageView crop_rows(PlanarImageView rows, const Region& region) noexcept {
    const std::size_t offset =
        static_cast<std::size_t>(region.top) * rows.row_stride_bytes + static_cast<std::size_t>(region.left);
    for (std::uint8_t*& plane : rows.planes) plane += offset;
    rows.width = region.width;
    rows.height = region.height;
    return rows;
}

}  // namespace

// The window of `image` that shows, through the last write. An empty window is written from nowhere.
void TransformExecutor::write(const Image& image, ConvertJob job, void* destination) const noexcept {
    const Placement& placement = image.placement;
    const bool is_empty = placement.source.width == 0 || placement.source.height == 0;
    const Region source = is_empty ? Region{} : placement.source;
    job.width = placement.size.width;
    job.height = placement.size.height;
    job.left = is_empty ? 0 : placement.left;
    job.top = is_empty ? 0 : placement.top;
    job.is_mirrored = placement.is_mirrored;
    if (image.is_in_strips) {
        kernels_.convert_strips(image.strips.crop(source), job, destination);
    } else {
        kernels_.convert_rows(crop_rows(image.rows, source), job, destination);
    }
}

// Moves the image into strips of its own, so that it is plain: what a resize reads.
Status TransformExecutor::gather_into_strips(Image* image) noexcept {
    const ImageSize size = image->placement.size;
    PlanarImageView rows;
    if (!image->is_in_strips && image->placement.is_plain()) {
        rows = crop_rows(image->rows, image->placement.source);
    } else {
        const auto width = static_cast<std::size_t>(size.width);
        const std::size_t plane_bytes = width * static_cast<std::size_t>(size.height);  // at most 2^40
        if (Status status = gathered_rows_.reserve(3 * plane_bytes); !status.is_ok()) return status;
        write(*image, {}, gathered_rows_.data());
        rows = {{gathered_rows_.data(), gathered_rows_.data() + plane_bytes, gathered_rows_.data() + 2 * plane_bytes},
                width,
                size.width,
                size.height};
    }
    WritableStrips strips;
    if (Status status = reserve_strips(size, &gathered_strips_, &strips); !status.is_ok()) return status;
    rows_to_strips(rows, strips);
    image->strips = strips.view;
    image->is_in_strips = true;
    image->placement = Placement::of_whole(size);
    return Status::ok();
}

Status TransformExecutor::resize(ImageSize to, Interpolation interpolation, ResizeOrder order, Image* image) noexcept {
    // Pillow's weights are not symmetric (positions are rounded up at halves), so a flip cannot move behind a resize.
    if (!image->is_in_strips || !image->placement.is_plain()) {
        if (Status status = gather_into_strips(image); !status.is_ok()) return status;
    }
    const ImageSize from = image->placement.size;
    if (Status status = resize_plan_.prepare(from, to, interpolation, order); !status.is_ok()) return status;
    std::size_t scratch_size = 0;
    if (!kernels_.resize_scratch_bytes(from, resize_plan_.job(), &scratch_size)) return too_large();
    if (Status status = kernel_scratch_.reserve(scratch_size); !status.is_ok()) return status;
    if (Status status = reserve_rows(to, &resized_rows_, &image->rows); !status.is_ok()) return status;
    kernels_.resize(image->strips.crop(image->placement.source), resize_plan_.job(), kernel_scratch_.data(),
                    image->rows);
    image->is_in_strips = false;
    image->placement = Placement::of_whole(to);
    return Status::ok();
}

Status TransformExecutor::run(const TransformPlan& plan, const ResolvedTransform& resolved,
                              const StripImageView& pixels, void* destination) noexcept {
    const Region& region = resolved.source_region;
    if (pixels.width != region.width || pixels.height != region.height) {
        return {StatusCode::kInvalidGeometry, 0, 0, "the pixels are not the region that the transform asked for"};
    }
    // The source with nothing known of it but the region.
    Image image;
    image.placement = {resolved.source_size, {0, 0, region.width, region.height}, region.left, region.top, false};
    image.strips = pixels;
    for (const ResolvedStep& step : resolved.steps()) {
        switch (step.kind) {
            case ResolvedKind::kCrop:
                image.placement.crop(step.crop);
                break;
            case ResolvedKind::kHorizontalFlip:
                image.placement.flip();
                break;
            case ResolvedKind::kResize: {
                Status status = resize(step.size, step.interpolation, plan.resize_order(), &image);
                if (!status.is_ok()) return status;
                break;
            }
        }
    }
    const OutputLayout& layout = plan.layout();
    ConvertJob job;
    job.is_channels_last = layout.channels_last;
    job.element_size_bytes = layout.element_size_bytes;
    job.table = layout.table.empty() ? nullptr : layout.table.data();
    write(image, job, destination);
    return Status::ok();
}

Status TransformExecutor::load_packed(const PackedImageView& rgb, StripImageView* strips) noexcept {
    if (!is_size(rgb.width, rgb.height)) {
        return {StatusCode::kInvalidGeometry, 0, 0, "a side of the image is not in 1..65535"};
    }
    WritableStrips target;
    if (Status status = reserve_strips({rgb.width, rgb.height}, &packed_strips_, &target); !status.is_ok()) {
        return status;
    }
    const auto width = static_cast<std::size_t>(rgb.width);
    for (std::size_t y = 0; y < static_cast<std::size_t>(rgb.height); ++y) {
        const std::uint8_t* pixels = rgb.pixels + y * rgb.row_stride_bytes;
        const std::size_t offset = y / kStripRows * target.view.strip_stride_bytes + y % kStripRows;
        std::uint8_t* red = target.planes[0] + offset;
        std::uint8_t* green = target.planes[1] + offset;
        std::uint8_t* blue = target.planes[2] + offset;
        for (std::size_t x = 0; x < width; ++x) {
            red[kStripRows * x] = pixels[3 * x];
            green[kStripRows * x] = pixels[3 * x + 1];
            blue[kStripRows * x] = pixels[3 * x + 2];
        }
    }
    *strips = target.view;
    return Status::ok();
}

std::size_t TransformExecutor::scratch_bytes() const noexcept {
    return resize_plan_.scratch_bytes() + kernel_scratch_.capacity() + resized_rows_.capacity() +
           gathered_rows_.capacity() + gathered_strips_.capacity() + packed_strips_.capacity();
}

}  // namespace fastload

#include "image/plan/transform_executor.h"

#include "base/checked_math.h"
#include "image/pixels/nearest_axis.h"
#include "image/pixels/padding.h"
#include "image/pixels/rotation.h"
#include "image/plan/resolver.h"
#include "image/steps/pixel_op.h"
#include "image/steps/random_erasing.h"

namespace fastload {

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

AlignedBuffer* TransformExecutor::free_rows(const Image& image) noexcept {
    return &rows_[!image.is_in_strips && image.row_buffer == 0 ? 1 : 0];
}

void TransformExecutor::replace_rows(ImageSize size, const PlanarImageView& rows, const AlignedBuffer* buffer,
                                     Image* image) const noexcept {
    image->rows = rows;
    image->row_buffer = buffer == &rows_[0] ? 0 : 1;
    image->is_in_strips = false;
    image->placement = Placement::of_whole(size);
}

// Makes the image whole and plain in rows.
Status TransformExecutor::gather_into_rows(Image* image) noexcept {
    const ImageSize size = image->placement.size;
    if (!image->is_in_strips && image->placement.is_plain()) {
        image->rows = crop_rows(image->rows, image->placement.source);
        image->placement = Placement::of_whole(size);
        return Status::ok();
    }
    AlignedBuffer* buffer = free_rows(*image);
    const auto width = static_cast<std::size_t>(size.width);
    const std::size_t plane_bytes = width * static_cast<std::size_t>(size.height);  // at most 2^40
    if (Status status = buffer->reserve(3 * plane_bytes); !status.is_ok()) return status;
    write(*image, {}, buffer->data());
    const PlanarImageView rows = {{buffer->data(), buffer->data() + plane_bytes, buffer->data() + 2 * plane_bytes},
                                  width,
                                  size.width,
                                  size.height};
    replace_rows(size, rows, buffer, image);
    return Status::ok();
}

// Moves the image into strips of its own, so that it is plain: what a resize reads.
Status TransformExecutor::gather_into_strips(Image* image) noexcept {
    if (Status status = gather_into_rows(image); !status.is_ok()) return status;
    WritableStrips strips;
    if (Status status = reserve_strips(image->placement.size, &gathered_strips_, &strips); !status.is_ok()) {
        return status;
    }
    rows_to_strips(image->rows, strips);
    image->strips = strips.view;
    image->is_in_strips = true;
    return Status::ok();
}

// Lets `make(source, destination)`, which returns a Status, write new rows of `size` from plain ones.
template <typename Make>
Status TransformExecutor::remake_rows(ImageSize size, Image* image, Make make) noexcept {
    if (Status status = gather_into_rows(image); !status.is_ok()) return status;
    AlignedBuffer* buffer = free_rows(*image);
    PlanarImageView rows;
    if (Status status = reserve_rows(size, buffer, &rows); !status.is_ok()) return status;
    if (Status status = make(image->rows, rows); !status.is_ok()) return status;
    replace_rows(size, rows, buffer, image);
    return Status::ok();
}

// See Note [windows].
Status TransformExecutor::filter(const ResolvedStep& step, ResizeOrder order, Image* image) noexcept {
    const Region& window = step.window;
    const ImageSize from = image->placement.size;
    const Region input = resize_source(from, step.size, window, step.interpolation);
    Region stored;
    // Pillow's weights are not symmetric (positions are rounded up at halves), so a flip cannot move behind a resize.
    if (!image->is_in_strips || !image->placement.find(input, &stored)) {
        if (Status status = gather_into_strips(image); !status.is_ok()) return status;
        stored = input;
    }
    if (Status status = resize_plan_.prepare(from, step.size, window, step.interpolation, order); !status.is_ok()) {
        return status;
    }
    std::size_t scratch_size = 0;
    if (!kernels_.resize_scratch_bytes({stored.width, stored.height}, resize_plan_.job(), &scratch_size)) {
        return image_too_large();
    }
    if (Status status = kernel_scratch_.reserve(scratch_size); !status.is_ok()) return status;
    PlanarImageView rows;
    AlignedBuffer* buffer = free_rows(*image);
    if (Status status = reserve_rows({window.width, window.height}, buffer, &rows); !status.is_ok()) return status;
    kernels_.resize(image->strips.crop(stored), resize_plan_.job(), kernel_scratch_.data(), rows);
    replace_rows(step.size, rows, buffer, image);
    image->placement = {step.size, {0, 0, window.width, window.height}, window.left, window.top, false};
    return Status::ok();
}

Status TransformExecutor::resize(const ResolvedStep& step, ResizeOrder order, Image* image) noexcept {
    if (step.interpolation != Interpolation::kNearest) return filter(step, order, image);
    return remake_rows(step.size, image, [this](const PlanarImageView& source, const PlanarImageView& destination) {
        return resize_nearest(source, destination, &positions_);
    });
}

Status TransformExecutor::flip_vertically(Image* image) noexcept {
    return remake_rows(image->placement.size, image,
                       [](const PlanarImageView& source, const PlanarImageView& destination) {
                           fastload::flip_vertically(source, destination);
                           return Status::ok();
                       });
}

Status TransformExecutor::pad(const Padding& padding, Image* image) noexcept {
    const PaddedCrop zeros = zeros_around(image->placement.size, padding);
    if (padding.is_zeros()) {
        image->placement.crop(zeros);
        return Status::ok();
    }
    return remake_rows({zeros.width(), zeros.height()}, image,
                       [&](const PlanarImageView& source, const PlanarImageView& destination) {
                           return pad_image(source, padding, destination, &positions_);
                       });
}

Status TransformExecutor::run_op(const PixelOp& op, Image* image) noexcept {
    if (is_in_place(op)) {
        if (Status status = gather_into_rows(image); !status.is_ok()) return status;
        return run_pixel_op(op, image->rows, {}, &positions_);
    }
    return remake_rows(size_after(op, image->placement.size), image,
                       [&](const PlanarImageView& source, const PlanarImageView& destination) {
                           return run_pixel_op(op, source, destination, &positions_);
                       });
}

Status TransformExecutor::blur(const GaussianBlur& blur, float sigma, Image* image) noexcept {
    return remake_rows(image->placement.size, image,
                       [&](const PlanarImageView& source, const PlanarImageView& destination) {
                           return blur_image(blur, sigma, kernels_.blur, source, destination, &kernel_scratch_);
                       });
}

Status TransformExecutor::run_step(const ResolvedStep& step, ResizeOrder order, Image* image) noexcept {
    switch (step.kind) {
        case ResolvedKind::kCrop:
            image->placement.crop(step.crop);
            break;
        case ResolvedKind::kHorizontalFlip:
            image->placement.flip();
            break;
        case ResolvedKind::kResize:
            return resize(step, order, image);
        case ResolvedKind::kVerticalFlip:
            return flip_vertically(image);
        case ResolvedKind::kPad:
            return pad(step.padding, image);
        case ResolvedKind::kPixelOp:
            return run_op(step.op, image);
        case ResolvedKind::kGaussianBlur:
            return blur(*step.blur, step.sigma, image);
        case ResolvedKind::kErase:  // behind the last write
            break;
    }
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
        if (Status status = run_step(step, plan.resize_order(), &image); !status.is_ok()) return status;
    }
    const OutputLayout& layout = plan.layout();
    ConvertJob job;
    job.is_channels_last = layout.channels_last;
    job.element_size_bytes = layout.element_size_bytes;
    job.table = layout.table.empty() ? nullptr : layout.table.data();
    job.normalizations = plan.normalizations();
    write(image, job, destination);
    for (const ResolvedStep& step : resolved.steps()) {
        if (step.kind != ResolvedKind::kErase) continue;
        erase_elements(layout, resolved.output_size, step.erased, {step.erase_value.data(), step.erase_value.size()},
                       destination);
    }
    return Status::ok();
}

Status TransformExecutor::load_packed(const PackedImageView& rgb, StripImageView* strips) noexcept {
    if (!is_resized_side(rgb.width) || !is_resized_side(rgb.height)) {
        return {StatusCode::kInvalidGeometry, 0, 0,
                "a side of the image is not in 1..1048576, as native images need (docs/transforms.md)"};
    }
    WritableStrips target;
    if (Status status = reserve_strips({rgb.width, rgb.height}, &packed_strips_, &target); !status.is_ok()) {
        return status;
    }
    packed_to_strips(rgb, target);
    *strips = target.view;
    return Status::ok();
}

std::size_t TransformExecutor::scratch_bytes() const noexcept {
    return resize_plan_.scratch_bytes() + kernel_scratch_.capacity() + positions_.capacity() + rows_[0].capacity() +
           rows_[1].capacity() + gathered_strips_.capacity() + packed_strips_.capacity();
}

}  // namespace fastload

#include "image/plan/working_image.h"

#include <utility>

#include "image/plan/pixel_record.h"

namespace fastload {
namespace {

// Swaps the planes of red and blue on request.
template <typename View>
View in_order(View view, bool is_bgr) noexcept {
    if (is_bgr) std::swap(view.planes[0], view.planes[2]);
    return view;
}

}  // namespace

std::size_t Workspace::bytes() const noexcept {
    return resize_plan.scratch_bytes() + kernel_scratch.capacity() + positions.capacity() + rows[0].capacity() +
           rows[1].capacity() + gathered_strips.capacity() + packed_strips.capacity();
}

void Workspace::release(ScratchRule rule) noexcept {
    resize_plan.release_scratch(rule);
    for (AlignedBuffer* buffer : {&kernel_scratch, &positions, &rows[0], &rows[1], &gathered_strips, &packed_strips}) {
        buffer->release(rule);
    }
}

Status WorkingImage::resize(const StripImageView& source, const ResizeShape& shape, const Region& window,
                            Interpolation interpolation) noexcept {
    ResizePlan& plan = workspace_.resize_plan;
    if (Status status = plan.prepare(shape, window, interpolation, resize_order_); !status.is_ok()) return status;
    std::size_t scratch_size = 0;
    if (!workspace_.kernels.resize_scratch_bytes({source.width, source.height}, plan.job(), &scratch_size)) {
        return image_too_large();
    }
    if (Status status = workspace_.kernel_scratch.reserve(scratch_size); !status.is_ok()) return status;
    strips_ = source;
    placement_ = {shape.to, {0, 0, window.width, window.height}, window.left, window.top, false};
    is_resize_due_ = true;
    return Status::ok();
}

Status WorkingImage::make_due_resize() noexcept {
    if (!is_resize_due_) return Status::ok();
    is_resize_due_ = false;
    const ResizeJob& job = workspace_.resize_plan.job();
    return replace(placement_, {job.width, job.height}, [&](const PlanarImageView& rows) {
        workspace_.kernels.resize(strips_, job, workspace_.kernel_scratch.data(), rows);
        return Status::ok();
    });
}

// A batch of small results may still be in the caches when it is read.
bool WorkingImage::write_due_resize(const ConvertJob& job, bool is_bgr, void* destination) const noexcept {
    constexpr std::int64_t kFewPixels = 96 * 96;
    const ResizeJob& resize = workspace_.resize_plan.job();
    const Region& shown = placement_.source;
    if (shown.width != resize.width || shown.height != resize.height) return false;
    if (std::int64_t{resize.width} * resize.height < kFewPixels) return false;
    return workspace_.kernels.resize_convert(in_order(strips_, is_bgr), resize, workspace_.kernel_scratch.data(), job,
                                             destination);
}

// An empty window has no source.
Status WorkingImage::write(ConvertJob job, bool is_bgr, void* destination) noexcept {
    const bool is_empty = placement_.source.width == 0 || placement_.source.height == 0;
    const Region source = is_empty ? Region{} : placement_.source;
    job.width = placement_.size.width;
    job.height = placement_.size.height;
    job.left = is_empty ? 0 : placement_.left;
    job.top = is_empty ? 0 : placement_.top;
    job.is_mirrored = placement_.is_mirrored;
    if (is_resize_due_ && write_due_resize(job, is_bgr, destination)) return Status::ok();
    if (Status status = make_due_resize(); !status.is_ok()) return status;
    if (is_in_strips_) {
        workspace_.kernels.convert_strips(in_order(strips_.crop(source), is_bgr), job, destination);
    } else {
        workspace_.kernels.convert_rows(in_order(crop_rows(rows_, source), is_bgr), job, destination);
    }
    return Status::ok();
}

void WorkingImage::set_rows(const Placement& placement, const PlanarImageView& rows, std::size_t buffer) noexcept {
    rows_ = rows;
    buffer_ = buffer;
    is_in_strips_ = false;
    are_rows_own_ = true;
    placement_ = placement;
}

Status WorkingImage::gather(PlanarImageView* rows) noexcept {
    if (Status status = make_due_resize(); !status.is_ok()) return status;
    if (!is_in_strips_ && are_rows_own_ && placement_.is_plain()) {
        set_rows(Placement::of_whole(size()), crop_rows(rows_, placement_.source), buffer_);
    } else {
        const std::size_t buffer = free_buffer();
        AlignedBuffer& memory = workspace_.rows[buffer];
        if (Status status = memory.reserve(pixel_bytes(size())); !status.is_ok()) return status;
        if (Status status = write({}, false, memory.data()); !status.is_ok()) return status;
        set_rows(Placement::of_whole(size()), planes_at(memory.data(), size()), buffer);
    }
    *rows = rows_;
    return Status::ok();
}

Status WorkingImage::gather_into_strips() noexcept {
    PlanarImageView rows;
    if (Status status = gather(&rows); !status.is_ok()) return status;
    WritableStrips strips;
    if (Status status = reserve_strips(size(), &workspace_.gathered_strips, &strips); !status.is_ok()) return status;
    rows_to_strips(rows, strips);
    strips_ = strips.view;
    is_in_strips_ = true;
    return Status::ok();
}

// Pillow's weights are not symmetric (positions are rounded up at halves), so a flip cannot move after a resize.
Status WorkingImage::find_in_strips(const Region& region, StripImageView* strips) noexcept {
    if (Status status = make_due_resize(); !status.is_ok()) return status;
    Region stored;
    if (!is_in_strips_ || !placement_.find(region, &stored)) {
        if (Status status = gather_into_strips(); !status.is_ok()) return status;
        stored = region;
    }
    *strips = strips_.crop(stored);
    return Status::ok();
}

}  // namespace fastload

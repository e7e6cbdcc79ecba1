// The image between two operations, and the memory of the thread that works on it.
#pragma once

#include <cstddef>

#include "base/aligned_buffer.h"
#include "base/image_view.h"
#include "base/status.h"
#include "image/pixels/pixel_buffers.h"
#include "image/plan/placement.h"
#include "image/resize/resize_plan.h"
#include "kernels/kernel_table.h"

namespace fastload {

// Memory that one thread keeps from sample to sample.
struct Workspace {
    // `table` must live as long as the workspace (the tables are static).
    explicit Workspace(const KernelTable& table) noexcept : kernels(table) {}

    // Memory held, in bytes.
    std::size_t bytes() const noexcept;
    void release(ScratchRule rule) noexcept;

    const KernelTable& kernels;
    ResizePlan resize_plan;
    AlignedBuffer kernel_scratch;
    AlignedBuffer positions;
    AlignedBuffer rows[2];  // an image is read from one and written to the other
    AlignedBuffer gathered_strips;
    AlignedBuffer packed_strips;
};

// Pixels in one of the two layouts, and their position on the image. A resize is not carried out before its pixels are
// needed: Note [due resize]. If the last write comes next, both are done together.
class WorkingImage {
  public:
    // `pixels` are placed on the image by `placement`.
    WorkingImage(const StripImageView& pixels, const Placement& placement, ResizeOrder resize_order,
                 Workspace* workspace) noexcept
        : placement_(placement), strips_(pixels), resize_order_(resize_order), workspace_(*workspace) {}
    // The same with rows that belong to someone else and are not changed.
    WorkingImage(const PlanarImageView& pixels, const Placement& placement, ResizeOrder resize_order,
                 Workspace* workspace) noexcept
        : placement_(placement),
          is_in_strips_(false),
          are_rows_own_(false),
          rows_(pixels),
          resize_order_(resize_order),
          workspace_(*workspace) {}

    ImageSize size() const noexcept { return placement_.size; }
    Workspace& workspace() noexcept { return workspace_; }

    // Only the description changes: no pixel moves.
    void crop(const PaddedCrop& crop) noexcept { placement_.crop(crop); }
    void flip() noexcept { placement_.flip(); }

    // Makes the image whole and plain in rows, which may be changed in place.
    Status gather(PlanarImageView* rows) noexcept;

    // Finds `region` of the image in strips; for that the whole image may have to move into strips.
    Status find_in_strips(const Region& region, StripImageView* strips) noexcept;

    // Resizes the image by `shape` and `interpolation`, limited to `window` of the result. `source` shows the pixels
    // that this reads, as returned by find_in_strips().
    Status resize(const StripImageView& source, const ResizeShape& shape, const Region& window,
                  Interpolation interpolation) noexcept;

    // Calls `make(source, destination)`, which returns a Status and writes a new image of `size` from plain rows.
    template <typename Make>
    Status remake(ImageSize size, Make make) noexcept {
        PlanarImageView source;
        if (Status status = gather(&source); !status.is_ok()) return status;
        return replace(Placement::of_whole(size), size,
                       [&](const PlanarImageView& destination) { return make(source, destination); });
    }

    // Writes the image in the form that `job` describes, with red or with blue as the first channel.
    Status write(ConvertJob job, bool is_bgr, void* destination) noexcept;

  private:
    // Calls `make(destination)`, which writes new rows of `stored` size for `placement`. The rows of the previous image
    // still exist during the call.
    template <typename Make>
    Status replace(const Placement& placement, ImageSize stored, Make make) noexcept {
        const std::size_t buffer = free_buffer();
        PlanarImageView rows;
        if (Status status = reserve_rows(stored, &workspace_.rows[buffer], &rows); !status.is_ok()) return status;
        if (Status status = make(rows); !status.is_ok()) return status;
        set_rows(placement, rows, buffer);
        return Status::ok();
    }

    Status make_due_resize() noexcept;
    bool write_due_resize(const ConvertJob& job, bool is_bgr, void* destination) const noexcept;
    std::size_t free_buffer() const noexcept { return !is_in_strips_ && buffer_ == 0 ? 1 : 0; }
    void set_rows(const Placement& placement, const PlanarImageView& rows, std::size_t buffer) noexcept;
    Status gather_into_strips() noexcept;

    // Note [due resize]: until its rows are made, a resize is `strips_` and the job of the workspace's plan;
    // `placement_` places its result. Crops and flips only change that.
    bool is_resize_due_ = false;

    Placement placement_;
    bool is_in_strips_ = true;
    bool are_rows_own_ = true;
    std::size_t buffer_ = 0;  // which of the workspace's buffers has the rows
    StripImageView strips_;
    PlanarImageView rows_;
    ResizeOrder resize_order_;
    Workspace& workspace_;
};

}  // namespace fastload

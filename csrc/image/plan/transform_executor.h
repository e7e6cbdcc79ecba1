// Runs plans on pixels: one per thread, with the scratch memory that this needs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/aligned_buffer.h"
#include "base/image_view.h"
#include "base/status.h"
#include "image/pixels/pixel_buffers.h"
#include "image/plan/placement.h"
#include "image/plan/transform_plan.h"
#include "image/resize/resize_plan.h"
#include "kernels/kernel_table.h"

namespace fastload {

// Not thread-safe; one thread owns it. Allocates only while images are larger than all before.
class TransformExecutor {
  public:
    // `kernels` must live as long as the executor (the tables are static).
    explicit TransformExecutor(const KernelTable& kernels) noexcept : kernels_(kernels) {}

    // Writes one sample of resolved.output_size (plan.sample_bytes() where all have one size) to `destination`, aligned
    // to the element size. `resolved` comes from the same plan, and `pixels` shows exactly resolved.source_region.
    // kInvalidGeometry where it does not, or where a table's size overflows; kOutOfMemory. The destination's contents
    // are unspecified after a failure.
    Status run(const TransformPlan& plan, const ResolvedTransform& resolved, const StripImageView& pixels,
               void* destination) noexcept;

    // Copies an interleaved image into strips of this executor, for pixels that come from Pillow. `strips` shows the
    // whole image and is valid until the next call of load_packed.
    Status load_packed(const PackedImageView& rgb, StripImageView* strips) noexcept;

    // Memory held, in bytes.
    std::size_t scratch_bytes() const noexcept;

  private:
    // The image between two steps: pixels in one of the two layouts, and where they are on it.
    struct Image {
        Placement placement;
        bool is_in_strips = true;
        std::size_t row_buffer = 0;  // which of rows_ has its rows
        StripImageView strips;
        PlanarImageView rows;
    };

    Status run_step(const ResolvedStep& step, ResizeOrder order, Image* image) noexcept;
    Status resize(const ResolvedStep& step, ResizeOrder order, Image* image) noexcept;
    Status filter(const ResolvedStep& step, ResizeOrder order, Image* image) noexcept;
    Status flip_vertically(Image* image) noexcept;
    Status pad(const Padding& padding, Image* image) noexcept;
    Status run_op(const PixelOp& op, Image* image) noexcept;
    Status blur(const GaussianBlur& blur, float sigma, Image* image) noexcept;

    Status gather_into_rows(Image* image) noexcept;
    Status gather_into_strips(Image* image) noexcept;
    template <typename Make>
    Status remake_rows(ImageSize size, Image* image, Make make) noexcept;
    AlignedBuffer* free_rows(const Image& image) noexcept;
    void replace_rows(ImageSize size, const PlanarImageView& rows, const AlignedBuffer* buffer,
                      Image* image) const noexcept;
    void write(const Image& image, ConvertJob job, void* destination) const noexcept;

    const KernelTable& kernels_;
    ResizePlan resize_plan_;
    AlignedBuffer kernel_scratch_;
    AlignedBuffer positions_;
    AlignedBuffer rows_[2];  // an image is read from one and written to the other
    AlignedBuffer gathered_strips_;
    AlignedBuffer packed_strips_;
};

}  // namespace fastload

// Runs plans on pixels: one executor per thread, with its scratch memory.
#pragma once

#include <cstddef>

#include "base/image_view.h"
#include "base/status.h"
#include "image/plan/transform_plan.h"
#include "image/plan/working_image.h"
#include "kernels/kernel_table.h"

namespace fastload {

// Not thread-safe; one thread owns it.
class TransformExecutor {
  public:
    // `kernels` must live as long as the executor (the tables are static).
    explicit TransformExecutor(const KernelTable& kernels) noexcept : workspace_(kernels) {}

    // Writes one sample of resolved.output_size (plan.sample_bytes() if all have one size) to `destination`, aligned to
    // the element size. `resolved` comes from the same plan, and `pixels` shows exactly resolved.source_region. Returns
    // kInvalidGeometry if it does not, or if a table's size overflows, or kOutOfMemory. The destination's contents are
    // unspecified after a failure. The view is a StripImageView, or a PlanarImageView, whose pixels are not changed.
    template <typename View>
    Status run(const TransformPlan& plan, const ResolvedTransform& resolved, const View& pixels,
               void* destination) noexcept;

    // Copies an interleaved image into strips of this executor, for pixels that come from Pillow. `strips` shows the
    // whole image and is valid until the next call of load_packed.
    Status load_packed(const PackedImageView& rgb, StripImageView* strips) noexcept;

    // Memory held, in bytes.
    std::size_t scratch_bytes() const noexcept { return workspace_.bytes(); }
    // Invalidates the view that load_packed() returned.
    void release_scratch(ScratchRule rule) noexcept { workspace_.release(rule); }

  private:
    Workspace workspace_;
};

}  // namespace fastload

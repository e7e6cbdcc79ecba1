// Runs plans on pixels: one per thread, with the scratch memory that this needs.
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

    // Writes one sample of resolved.output_size (plan.sample_bytes() where all have one size) to `destination`, aligned
    // to the element size. `resolved` comes from the same plan, and `pixels` shows exactly resolved.source_region.
    // kInvalidGeometry where it does not, or where a table's size overflows; kOutOfMemory. The destination's contents
    // are unspecified after a failure.
    Status run(const TransformPlan& plan, const ResolvedTransform& resolved, const StripImageView& pixels,
               void* destination) noexcept;
    // The same of pixels in rows, which stay as they are.
    Status run(const TransformPlan& plan, const ResolvedTransform& resolved, const PlanarImageView& pixels,
               void* destination) noexcept;

    // Copies an interleaved image into strips of this executor, for pixels that come from Pillow. `strips` shows the
    // whole image and is valid until the next call of load_packed.
    Status load_packed(const PackedImageView& rgb, StripImageView* strips) noexcept;

    // Memory held, in bytes.
    std::size_t scratch_bytes() const noexcept { return workspace_.bytes(); }
    // What load_packed() has shown is gone then.
    void release_scratch(ScratchRule rule) noexcept { workspace_.release(rule); }

  private:
    template <typename View>
    Status run_on(const TransformPlan& plan, const ResolvedTransform& resolved, const View& pixels,
                  void* destination) noexcept;

    Workspace workspace_;
};

}  // namespace fastload

#include "image/plan/transform_executor.h"

#include "image/plan/image_sides.h"

namespace fastload {

template <typename View>
Status TransformExecutor::run(const TransformPlan& plan, const ResolvedTransform& resolved, const View& pixels,
                              void* destination) noexcept {
    const Region& region = resolved.source_region;
    if (pixels.width != region.width || pixels.height != region.height) {
        return {StatusCode::kInvalidGeometry, 0, 0, "the pixels are not the region that the transform asked for"};
    }
    // A source of which only the region is known.
    const Placement placement = {
        resolved.source_size, {0, 0, region.width, region.height}, region.left, region.top, false};
    WorkingImage image(pixels, placement, plan.resize_order(), &workspace_);
    const OperationList& operations = resolved.operations;
    for (std::size_t i = 0; i < operations.size(); ++i) {
        if (Status status = operations[i].run(&image); !status.is_ok()) return status;
    }
    const OutputLayout& layout = plan.layout();
    ConvertJob job;
    job.is_channels_last = layout.channels_last;
    job.element_size_bytes = layout.element_size_bytes;
    job.table = layout.table.empty() ? nullptr : layout.table.data();
    job.normalizations = plan.normalizations();
    if (Status status = image.write(job, layout.is_bgr, destination); !status.is_ok()) return status;
    for (std::size_t i = 0; i < operations.size(); ++i) {
        operations[i].run_on_elements(layout, resolved.output_size, destination);
    }
    return Status::ok();
}

template Status TransformExecutor::run(const TransformPlan&, const ResolvedTransform&, const StripImageView&,
                                       void*) noexcept;
template Status TransformExecutor::run(const TransformPlan&, const ResolvedTransform&, const PlanarImageView&,
                                       void*) noexcept;

Status TransformExecutor::load_packed(const PackedImageView& rgb, StripImageView* strips) noexcept {
    if (!LongSize(rgb.width, rgb.height).is_possible()) {
        return {StatusCode::kInvalidGeometry, 0, 0,
                "a side of the image is not in 1..1048576, as native images need (docs/transforms.md)"};
    }
    WritableStrips target;
    if (Status status = reserve_strips({rgb.width, rgb.height}, &workspace_.packed_strips, &target); !status.is_ok()) {
        return status;
    }
    packed_to_strips(rgb, target);
    *strips = target.view;
    return Status::ok();
}

}  // namespace fastload

#include "engine/sample/first_steps_image.h"

namespace fastload {

Status FirstStepsImage::make(const SampleTask& task, const StripImageView& pixels,
                             TransformExecutor* executor) noexcept {
    const TransformPlan& plan = *task.source->first_steps->plan;
    const ResolvedTransform& resolved = task.report->first_steps;
    const ImageSize size = resolved.output_size;
    std::size_t bytes = 0;
    std::uint8_t* const rows = plan.count_bytes(size, &bytes) ? writer_.begin(size, task.report->source_size) : nullptr;
    if (rows == nullptr) return {StatusCode::kOutOfMemory, 0, 0, "no memory for an image between two steps"};
    return executor->run(plan, resolved, pixels, rows);
}

}  // namespace fastload

#include "engine/sample/sample_task.h"

#include <algorithm>

namespace fastload {

bool SampleSource::is_random() const noexcept {
    return std::any_of(views.begin(), views.end(),
                       [](const View& view) { return view.plan != nullptr && view.plan->is_random(); });
}

Status SampleSource::resolve(DrawSource* draws, ImageSize source_size, SampleReport* report) const noexcept {
    report->source_size = source_size;
    ImageSize size = source_size;
    if (first_steps != nullptr) {
        const Status status = first_steps->plan->resolve(draws, size, &report->first_steps);
        if (!status.is_ok()) return status;
        size = report->first_steps.output_size;
    }
    for (std::size_t i = 0; i < views.size(); ++i) {
        const Status status = views[i].plan->resolve(draws, size, &report->views[i]);
        if (!status.is_ok()) return status;
    }
    return Status::ok();
}

void SampleReport::reset(const SampleSource& source) {
    sample_index = 0;
    is_by_fallback = false;
    is_by_record = false;
    source_size = {};
    first_steps.operations.clear();
    if (source.first_steps != nullptr) source.first_steps->plan->reserve(&first_steps);
    views.resize(source.views.size());
    for (std::size_t i = 0; i < views.size(); ++i) {
        views[i].operations.clear();
        if (source.views[i].plan != nullptr) source.views[i].plan->reserve(&views[i]);
    }
}

Region SampleReport::source_region(const SampleSource& source) const noexcept {
    if (source.first_steps != nullptr) return first_steps.source_region;
    Region all = views.front().source_region;
    for (const ResolvedTransform& view : views) {
        const Region& region = view.source_region;
        const std::int32_t right = std::max(all.left + all.width, region.left + region.width);
        const std::int32_t bottom = std::max(all.top + all.height, region.top + region.height);
        all.left = std::min(all.left, region.left);
        all.top = std::min(all.top, region.top);
        all.width = right - all.left;
        all.height = bottom - all.top;
    }
    return all;
}

}  // namespace fastload

#include "image/plan/transform_plan.h"

#include <algorithm>
#include <new>
#include <optional>

#include "base/checked_math.h"
#include "image/plan/resolver.h"
#include "image/steps/resolve_steps.h"
#include "image/steps/step_checks.h"
#include "image/steps/step_sizes.h"

namespace fastload {
namespace {

std::string check_step_count(const std::vector<TransformStep>& steps) {
    const std::size_t count = count_resolved_steps(steps);
    if (count <= kMaxResolvedSteps) return "";
    return sentence("steps", "at most " + std::to_string(kMaxResolvedSteps) + " operations", count);
}

}  // namespace

std::shared_ptr<TransformPlan> TransformPlan::create(std::vector<TransformStep> steps, OutputLayout layout,
                                                     const PlanOptions& options, std::string* problem) {
    auto plan = std::make_shared<TransformPlan>(OnlyInCreate{});
    *problem = check_layout(layout);
    if (problem->empty()) *problem = check_steps(steps, layout);
    if (problem->empty()) *problem = check_step_count(steps);
    if (!problem->empty()) return nullptr;
    plan->max_steps_ = count_resolved_steps(steps);
    plan->steps_ = std::move(steps);
    plan->layout_ = std::move(layout);
    const std::vector<std::uint8_t>& table = plan->layout_.table;
    if (plan->layout_.element_size_bytes == sizeof(float) && !table.empty()) {
        plan->normalizations_ = find_normalizations(table.data());
    }
    plan->resize_order_ = options.resize_order;
    const std::optional<ImageSize> size = size_after(plan->steps_, std::nullopt);
    if (!size && !options.is_variable_size_allowed) {
        *problem =
            "steps must end in an image of fixed size, but the result depends on the size of the source; add a resize "
            "to (height, width), a center_crop or a random_resized_crop";
        return nullptr;
    }
    if (size && !plan->count_bytes(*size, &plan->sample_bytes_)) {
        *problem = "the size of a sample in bytes does not fit into the address space";
        return nullptr;
    }
    plan->output_size_ = size.value_or(ImageSize{});
    return plan;
}

bool TransformPlan::count_bytes(ImageSize size, std::size_t* bytes) const noexcept {
    return checked_multiply(static_cast<std::size_t>(size.width), static_cast<std::size_t>(size.height), bytes) &&
           checked_multiply(*bytes, std::size_t{3} * static_cast<std::size_t>(layout_.element_size_bytes), bytes);
}

bool TransformPlan::is_random() const noexcept {
    return std::any_of(steps_.begin(), steps_.end(), fastload::is_random);
}

Status TransformPlan::resolve(DrawSource* draws, ImageSize source, ResolvedTransform* out) const noexcept {
    if (!is_resized_side(source.width) || !is_resized_side(source.height)) {
        return {StatusCode::kInvalidGeometry, 0, 0,
                "a side of the image is not in 1..1048576, as native images need (docs/transforms.md)"};
    }
    try {
        reserve(out);
    } catch (const std::bad_alloc&) {
        return {StatusCode::kOutOfMemory, 0, 0, "no memory for the steps of a sample"};
    }
    Resolver resolver(source, out);
    if (Status status = resolve_steps(steps_, draws, &resolver); !status.is_ok()) return status;
    resolver.finish();
    return Status::ok();
}

}  // namespace fastload

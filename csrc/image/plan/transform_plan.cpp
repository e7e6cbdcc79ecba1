#include "image/plan/transform_plan.h"

#include <algorithm>
#include <new>
#include <optional>

#include "base/checked_math.h"
#include "image/plan/argument_checks.h"
#include "image/plan/resolver.h"

namespace fastload {
namespace {

std::string check_layout(const OutputLayout& layout) {
    const int size = layout.element_size_bytes;
    if (size != 1 && size != 2 && size != 4 && size != 8) return sentence("element_size", "1, 2, 4 or 8", size);
    if (layout.table.empty()) return size == 1 ? "" : sentence("element_size", "1 where there is no table", size);
    const std::size_t expected = std::size_t{3} * 256 * static_cast<std::size_t>(size);
    if (layout.table.size() == expected) return "";
    return sentence("table", "3 * 256 * element_size = " + std::to_string(expected) + " bytes", layout.table.size());
}

// Checks that steps on elements come last and fit `layout`.
std::string check_elements(const Steps& steps, const OutputLayout& layout) {
    for (std::size_t i = 0; i < steps.size(); ++i) {
        const std::string name = "steps[" + std::to_string(i) + "]";
        const bool is_behind_elements = i > 0 && steps[i - 1].step->is_on_elements();
        if (is_behind_elements && !steps[i].step->is_on_elements()) {
            return name + " comes after a step on finished elements, which must be the last";
        }
        const std::string problem = steps[i].step->check_layout(layout);
        if (!problem.empty()) return name + ": " + problem;
    }
    return "";
}

std::string check_count(const Steps& steps) {
    const std::size_t count = count_operations(steps);
    if (count <= kMaxOperations) return "";
    return sentence("steps", "at most " + std::to_string(kMaxOperations) + " operations", count);
}

}  // namespace

std::shared_ptr<TransformPlan> TransformPlan::create(Steps steps, OutputLayout layout, const PlanOptions& options,
                                                     std::string* problem) {
    auto plan = std::make_shared<TransformPlan>(OnlyInCreate{});
    *problem = check_layout(layout);
    if (problem->empty()) *problem = check_steps(steps);
    if (problem->empty()) *problem = check_elements(steps, layout);
    if (problem->empty()) *problem = check_count(steps);
    if (!problem->empty()) return nullptr;
    plan->max_operations_ = count_operations(steps);
    plan->steps_ = std::move(steps);
    plan->layout_ = std::move(layout);
    const std::vector<std::uint8_t>& table = plan->layout_.table;
    if (plan->layout_.element_size_bytes == sizeof(float) && !table.empty()) {
        plan->normalizations_ = find_normalizations(table.data());
    }
    plan->options_ = options;
    const std::optional<ImageSize> size = size_after(plan->steps_, options.source_size);
    if (!size && !options.is_variable_size_allowed) {
        *problem =
            "steps must end in an image of fixed size, but the result depends on the size of the source; "
            "add a Resize, a CenterCrop or a RandomResizedCrop";
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
    return std::any_of(steps_.begin(), steps_.end(), [](const PlacedStep& placed) { return placed.step->is_random(); });
}

Status TransformPlan::resolve(DrawSource* draws, ImageSize source, ResolvedTransform* out) const noexcept {
    if (!LongSize(source).is_possible()) {
        return {StatusCode::kInvalidGeometry, 0, 0,
                "a side of the image is not in 1..1048576, as native images need (docs/transforms.md)"};
    }
    const std::optional<ImageSize>& known = options_.source_size;
    if (known && (source.width != known->width || source.height != known->height)) {
        return {StatusCode::kInvalidGeometry, 0, 0, "the image has not the size that the plan was made for"};
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

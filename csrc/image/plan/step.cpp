#include "image/plan/step.h"

#include "image/plan/argument_checks.h"

namespace fastload {

std::string SizedStep::check() const { return first_of(check_side("height", height), check_side("width", width)); }

std::string MaybeStep::check() const { return probability ? check_probability(*probability) : ""; }

std::string check_steps(const Steps& steps) {
    for (std::size_t i = 0; i < steps.size(); ++i) {
        const std::string problem = steps[i].step->check();
        if (!problem.empty()) return "steps[" + std::to_string(i) + "]: " + problem;
    }
    return "";
}

std::optional<ImageSize> size_after(const Steps& steps, std::optional<ImageSize> before) {
    for (const PlacedStep& placed : steps) {
        const std::optional<LongSize> after = placed.step->size_after(before);
        before = after && after->is_possible() ? std::optional<ImageSize>(after->as_image_size()) : std::nullopt;
    }
    return before;
}

std::size_t count_operations(const Steps& steps) noexcept {
    std::size_t count = 0;
    for (const PlacedStep& placed : steps) count += placed.step->max_operations();
    return count;
}

Status resolve_steps(const Steps& steps, DrawSource* draws, Resolver* resolver) noexcept {
    for (const PlacedStep& placed : steps) {
        draws->begin_step(placed.position);
        if (Status status = placed.step->resolve(draws, resolver); !status.is_ok()) return status;
    }
    return Status::ok();
}

}  // namespace fastload

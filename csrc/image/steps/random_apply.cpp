#include "image/steps/random_apply.h"

#include <algorithm>

#include "image/plan/argument_checks.h"

namespace fastload {

std::string ApplyOp::check() const {
    if (op == nullptr) return sentence("op", "an operation", "none");
    return first_of(op->check(), MaybeStep::check());
}

std::optional<LongSize> ApplyOp::size_after(std::optional<ImageSize> before) const {
    if (!before) return std::nullopt;
    const ImageSize after = op->size_after(*before);
    return probability ? common_size(after, before) : after;
}

Status ApplyOp::resolve(DrawSource* draws, Resolver* resolver) const noexcept {
    if (happens(draws)) list_op(*op, resolver);
    return Status::ok();
}

std::string RandomApply::check() const {
    const bool has_elements =
        std::any_of(steps.begin(), steps.end(), [](const PlacedStep& placed) { return placed.step->is_on_elements(); });
    if (has_elements) return "steps must work on images: what works on finished elements comes last in a plan";
    return first_of(check_probability(probability), check_steps(steps));
}

std::optional<LongSize> RandomApply::size_after(std::optional<ImageSize> before) const {
    return common_size(fastload::size_after(steps, before), before);
}

Status RandomApply::resolve(DrawSource* draws, Resolver* resolver) const noexcept {
    const float draw = draws->uniform();
    const auto threshold = static_cast<float>(probability);
    const bool is_applied = family == TorchvisionFamily::kV1 ? draw <= threshold : draw < threshold;
    return is_applied ? resolve_steps(steps, draws, resolver) : Status::ok();
}

std::shared_ptr<Step> RandomApply::with_torch_exp(const FindTorchExp& find) const {
    auto copy = std::make_shared<RandomApply>(*this);
    for (PlacedStep& placed : copy->steps) {
        if (std::shared_ptr<Step> completed = placed.step->with_torch_exp(find)) placed.step = std::move(completed);
    }
    return copy;
}

}  // namespace fastload

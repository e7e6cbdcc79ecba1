#include "image/steps/policy_choice.h"

#include "image/plan/argument_checks.h"

namespace fastload {

std::string PolicyChoice::check() const {
    if (num_bins < 1) return sentence("num_bins", "positive", num_bins);
    const std::size_t expected = static_cast<std::size_t>(num_bins) * (is_signed ? 2 : 1);
    if (ops.size() != expected) {
        return sentence("ops", "one operation for each bin and sign, " + std::to_string(expected), ops.size());
    }
    for (std::size_t i = 0; i < ops.size(); ++i) {
        const std::string problem = ops[i] == nullptr ? "there is none" : ops[i]->check();
        if (!problem.empty()) return "ops[" + std::to_string(i) + "]: " + problem;
    }
    return check_probability(probability);
}

std::optional<ImageSize> PolicyChoice::size_after(std::optional<ImageSize> before) const {
    std::optional<ImageSize> size = before;
    for (const auto& op : ops) size = size ? common_size(size, op->size_after(*before)) : std::nullopt;
    return size;
}

const PixelOp& PolicyChoice::draw(TorchvisionFamily family, DrawSource* draws) const noexcept {
    const std::uint32_t bin = num_bins > 1 ? draws->below(static_cast<std::uint32_t>(num_bins)) : 0;
    if (!is_signed) return op(bin, false);
    const bool is_negative = family == TorchvisionFamily::kV1 ? draws->below(2) != 0 : draws->uniform() <= 0.5F;
    return op(bin, is_negative);
}

std::string check_choices(const std::string& name, const PolicyChoices& choices) {
    if (choices.empty()) return name + " must not be empty";
    for (std::size_t i = 0; i < choices.size(); ++i) {
        const std::string problem = choices[i] == nullptr ? "there is none" : choices[i]->check();
        if (!problem.empty()) return name + "[" + std::to_string(i) + "]: " + problem;
    }
    return "";
}

std::optional<ImageSize> size_after_any(const PolicyChoices& choices, std::optional<ImageSize> before) {
    std::optional<ImageSize> size = before;
    for (const auto& choice : choices) size = common_size(size, choice->size_after(before));
    return size;
}

void list_drawn_choice(const PolicyChoices& choices, TorchvisionFamily family, DrawSource* draws,
                       Resolver* resolver) noexcept {
    const PolicyChoice& choice = *choices[draws->below(static_cast<std::uint32_t>(choices.size()))];
    list_op(choice.draw(family, draws), resolver);
}

}  // namespace fastload

#include "image/steps/policies.h"

#include "image/plan/argument_checks.h"

namespace fastload {
namespace {

// The first problem of `items`; `name` is the word for them in the message.
template <typename Items>
std::string check_each(const std::string& name, const Items& items) {
    for (std::size_t i = 0; i < items.size(); ++i) {
        const std::string problem = items[i] == nullptr ? "there is none" : items[i]->check();
        if (!problem.empty()) return name + "[" + std::to_string(i) + "]: " + problem;
    }
    return "";
}

template <typename Choices>
std::optional<ImageSize> size_after_any(const Choices& choices, std::optional<ImageSize> before) {
    std::optional<ImageSize> size = before;
    for (const auto& choice : choices) size = common_size(size, choice->size_after(before));
    return size;
}

bool is_applied(const PolicyChoice& choice, float draw) noexcept {
    return draw <= static_cast<float>(choice.probability);
}

// Draws everything at once, even numbers that it does not need. Here 0 means negative.
void list_policy_v1(const AutoAugment::Policy& policy, DrawSource* draws, Resolver* resolver) noexcept {
    const float probabilities[2] = {draws->uniform(), draws->uniform()};
    const bool is_negative[2] = {draws->below(2) == 0, draws->below(2) == 0};
    for (std::size_t i = 0; i < 2; ++i) {
        if (is_applied(*policy[i], probabilities[i])) list_op(policy[i]->op(0, is_negative[i]), resolver);
    }
}

void list_policy_v2(const AutoAugment::Policy& policy, DrawSource* draws, Resolver* resolver) noexcept {
    for (const auto& choice : policy) {
        if (is_applied(*choice, draws->uniform())) list_op(choice->draw(TorchvisionFamily::kV2, draws), resolver);
    }
}

}  // namespace

std::string PolicyChoice::check() const {
    if (num_bins < 1) return sentence("num_bins", "positive", num_bins);
    const std::size_t expected = static_cast<std::size_t>(num_bins) * (is_signed ? 2 : 1);
    if (ops.size() != expected) {
        return sentence("ops", "one operation for each bin and sign, " + std::to_string(expected), ops.size());
    }
    return first_of(check_each("ops", ops), check_probability(probability));
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

std::string ChoosingStep::check() const {
    return choices.empty() ? "choices must not be empty" : check_each("choices", choices);
}

std::optional<LongSize> ChoosingStep::size_after(std::optional<ImageSize> before) const {
    return size_after_any(choices, before);
}

void ChoosingStep::list_one(DrawSource* draws, Resolver* resolver) const noexcept {
    const PolicyChoice& choice = *choices[draws->below(static_cast<std::uint32_t>(choices.size()))];
    list_op(choice.draw(family, draws), resolver);
}

std::string RandAugment::check() const {
    if (num_ops < 0 || num_ops > kMaxOps) return sentence("num_ops", "in 0.." + std::to_string(kMaxOps), num_ops);
    std::string problem = ChoosingStep::check();
    for (std::size_t i = 0; problem.empty() && i < choices.size(); ++i) {
        const std::int32_t num_bins = choices[i]->num_bins;
        if (num_bins != 1) problem = sentence("choices[" + std::to_string(i) + "].num_bins", "1", num_bins);
    }
    return problem;
}

Status RandAugment::resolve(DrawSource* draws, Resolver* resolver) const noexcept {
    for (std::int32_t i = 0; i < num_ops; ++i) list_one(draws, resolver);
    return Status::ok();
}

Status TrivialAugmentWide::resolve(DrawSource* draws, Resolver* resolver) const noexcept {
    list_one(draws, resolver);
    return Status::ok();
}

std::string AutoAugment::check() const {
    if (policies.empty()) return "policies must not be empty";
    for (std::size_t i = 0; i < policies.size(); ++i) {
        const std::string problem = check_each("policies[" + std::to_string(i) + "]", policies[i]);
        if (!problem.empty()) return problem;
    }
    return "";
}

std::optional<LongSize> AutoAugment::size_after(std::optional<ImageSize> before) const {
    std::optional<ImageSize> size = before;
    for (const Policy& policy : policies) size = common_size(size, size_after_any(policy, before));
    return size;
}

Status AutoAugment::resolve(DrawSource* draws, Resolver* resolver) const noexcept {
    const Policy& policy = policies[draws->below(static_cast<std::uint32_t>(policies.size()))];
    const auto list = family == TorchvisionFamily::kV1 ? list_policy_v1 : list_policy_v2;
    list(policy, draws, resolver);
    return Status::ok();
}

}  // namespace fastload

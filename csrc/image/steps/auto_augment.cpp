#include "image/steps/auto_augment.h"

namespace fastload {
namespace {

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

std::string AutoAugment::check() const {
    if (policies.empty()) return "policies must not be empty";
    for (std::size_t i = 0; i < policies.size(); ++i) {
        const std::string problem =
            check_choices("policies[" + std::to_string(i) + "]", {policies[i].begin(), policies[i].end()});
        if (!problem.empty()) return problem;
    }
    return "";
}

std::optional<LongSize> AutoAugment::size_after(std::optional<ImageSize> before) const {
    std::optional<ImageSize> size = before;
    for (const Policy& policy : policies) {
        size = common_size(size, size_after_any({policy.begin(), policy.end()}, before));
    }
    return size;
}

Status AutoAugment::resolve(DrawSource* draws, Resolver* resolver) const noexcept {
    const Policy& policy = policies[draws->below(static_cast<std::uint32_t>(policies.size()))];
    const auto list = family == TorchvisionFamily::kV1 ? list_policy_v1 : list_policy_v2;
    list(policy, draws, resolver);
    return Status::ok();
}

}  // namespace fastload

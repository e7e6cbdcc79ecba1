#include "image/steps/augment_policy.h"

namespace fastload {
namespace {

using Subpolicy = std::array<PolicyChoice, 2>;

const PixelOp& op_at(const PolicyChoice& choice, std::uint32_t bin, bool is_negative) noexcept {
    return choice.ops[choice.is_signed ? 2 * bin + (is_negative ? 1 : 0) : bin];
}

const PixelOp& draw_sign(const PolicyChoice& choice, std::uint32_t bin, TorchvisionVersion version,
                         DrawSource* draws) noexcept {
    if (!choice.is_signed) return op_at(choice, bin, false);
    const bool is_negative = version == TorchvisionVersion::kV1 ? draws->below(2) != 0 : draws->uniform() <= 0.5F;
    return op_at(choice, bin, is_negative);
}

const PixelOp& draw_choice(const AugmentPolicy& policy, DrawSource* draws) noexcept {
    const PolicyChoice& choice = policy.choices[draws->below(static_cast<std::uint32_t>(policy.choices.size()))];
    const std::uint32_t bin = choice.num_bins > 1 ? draws->below(choice.num_bins) : 0;
    return draw_sign(choice, bin, policy.draws, draws);
}

bool is_applied(const PolicyChoice& choice, float draw) noexcept {
    return draw <= static_cast<float>(choice.probability);
}

// Draws everything at once, also what it does not need; and here 0 means negative.
void draw_subpolicy_v1(const Subpolicy& subpolicy, DrawSource* draws, PolicyOps* chosen) noexcept {
    const float probabilities[2] = {draws->uniform(), draws->uniform()};
    const bool is_negative[2] = {draws->below(2) == 0, draws->below(2) == 0};
    for (std::size_t i = 0; i < 2; ++i) {
        if (!is_applied(subpolicy[i], probabilities[i])) continue;
        chosen->ops[chosen->count++] = &op_at(subpolicy[i], 0, is_negative[i]);
    }
}

void draw_subpolicy_v2(const Subpolicy& subpolicy, DrawSource* draws, PolicyOps* chosen) noexcept {
    for (const PolicyChoice& choice : subpolicy) {
        if (!is_applied(choice, draws->uniform())) continue;
        chosen->ops[chosen->count++] = &draw_sign(choice, 0, TorchvisionVersion::kV2, draws);
    }
}

}  // namespace

std::size_t count_policy_ops(const AugmentPolicy& policy) noexcept {
    switch (policy.rule) {
        case PolicyRule::kRandAugment:
            return policy.num_ops;
        case PolicyRule::kTrivialAugment:
            return 1;
        default:
            return 2;
    }
}

PolicyOps draw_policy(const AugmentPolicy& policy, DrawSource* draws) noexcept {
    PolicyOps chosen;
    if (policy.rule != PolicyRule::kAutoAugment) {
        chosen.count = count_policy_ops(policy);
        for (std::size_t i = 0; i < chosen.count; ++i) chosen.ops[i] = &draw_choice(policy, draws);
        return chosen;
    }
    const Subpolicy& subpolicy =
        policy.subpolicies[draws->below(static_cast<std::uint32_t>(policy.subpolicies.size()))];
    if (policy.draws == TorchvisionVersion::kV1) {
        draw_subpolicy_v1(subpolicy, draws, &chosen);
    } else {
        draw_subpolicy_v2(subpolicy, draws, &chosen);
    }
    return chosen;
}

}  // namespace fastload

// torchvision's RandAugment, TrivialAugmentWide and AutoAugment, with every operation they can choose worked out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "image/random/draw_source.h"
#include "image/random/torchvision_version.h"
#include "image/steps/pixel_op.h"

namespace fastload {

enum class PolicyRule : std::uint8_t { kRandAugment, kTrivialAugment, kAutoAugment };

// One operation in all its strengths: ops[bin], or, where it is signed, ops[2 * bin] and its negative behind it.
struct PolicyChoice {
    double probability = 1.0;  // of kAutoAugment
    bool is_signed = false;
    std::uint32_t num_bins = 1;  // 1: no bin is drawn
    std::vector<PixelOp> ops;
};

struct AugmentPolicy {
    PolicyRule rule = PolicyRule::kRandAugment;
    TorchvisionVersion draws = TorchvisionVersion::kV1;
    std::uint32_t num_ops = 0;                             // of kRandAugment
    std::vector<PolicyChoice> choices;                     // of kRandAugment and kTrivialAugment
    std::vector<std::array<PolicyChoice, 2>> subpolicies;  // of kAutoAugment
};

constexpr std::size_t kMaxPolicyOps = 16;

// The most operations that a sample can get.
std::size_t count_policy_ops(const AugmentPolicy& policy) noexcept;

// The operations for one sample, in the order in which they run. They belong to the policy.
struct PolicyOps {
    std::array<const PixelOp*, kMaxPolicyOps> ops{};
    std::size_t count = 0;
};
PolicyOps draw_policy(const AugmentPolicy& policy, DrawSource* draws) noexcept;

}  // namespace fastload

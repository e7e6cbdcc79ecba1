#include "image/steps/step_sizes.h"

#include <algorithm>

#include "image/plan/resolver.h"

namespace fastload {
namespace {

using KnownSize = std::optional<ImageSize>;

KnownSize checked_size(std::int64_t width, std::int64_t height) {
    if (!is_resized_side(width) || !is_resized_side(height)) return std::nullopt;
    return ImageSize{static_cast<std::int32_t>(width), static_cast<std::int32_t>(height)};
}

// Where a draw decides which of two sizes it is.
KnownSize common_size(KnownSize a, KnownSize b) {
    const bool is_same = a && b && a->width == b->width && a->height == b->height;
    return is_same ? a : std::nullopt;
}

KnownSize size_after_op(const PixelOp& op, KnownSize before) {
    return before ? KnownSize(size_after(op, *before)) : std::nullopt;
}

KnownSize size_after_choice(const PolicyChoice& choice, KnownSize before) {
    KnownSize size = before;
    for (const PixelOp& op : choice.ops) size = common_size(size, size_after_op(op, before));
    return size;
}

// Every operation may run, alone or not at all; so all must leave the size as it is.
KnownSize size_after_policy(const AugmentPolicy& policy, KnownSize before) {
    KnownSize size = before;
    for (const PolicyChoice& choice : policy.choices) size = common_size(size, size_after_choice(choice, before));
    for (const auto& subpolicy : policy.subpolicies) {
        for (const PolicyChoice& choice : subpolicy) size = common_size(size, size_after_choice(choice, before));
    }
    return size;
}

KnownSize size_after_step(const TransformStep& step, KnownSize before) {
    switch (step.kind) {
        case TransformKind::kRandomResizedCrop:
        case TransformKind::kResize:
        case TransformKind::kCenterCrop:
        case TransformKind::kRandomCrop:
            return ImageSize{step.width, step.height};
        case TransformKind::kResizeShorterSide: {
            if (!before) return std::nullopt;
            const LongSize size = resized_shorter_side(*before, step.size, step.max_size);
            return checked_size(size.width, size.height);
        }
        case TransformKind::kPad: {
            if (!before) return std::nullopt;
            const Padding& padding = step.padding;
            return checked_size(std::int64_t{before->width} + padding.left + padding.right,
                                std::int64_t{before->height} + padding.top + padding.bottom);
        }
        case TransformKind::kRandomApply:
            return common_size(size_after(step.steps, before), before);
        case TransformKind::kPixelOp: {
            const KnownSize after = size_after_op(step.op, before);
            return step.is_certain ? after : common_size(after, before);
        }
        case TransformKind::kPolicy:
            return size_after_policy(step.policy, before);
        default:
            return before;
    }
}

std::size_t count_resolved_steps(const TransformStep& step) noexcept {
    switch (step.kind) {
        case TransformKind::kRandomResizedCrop:
        case TransformKind::kRandomCrop:  // a padding and a crop
            return 2;
        case TransformKind::kRandomApply:
            return count_resolved_steps(step.steps);
        case TransformKind::kColorJitter:
            return static_cast<std::size_t>(std::count_if(step.jitter.ranges.begin(), step.jitter.ranges.end(),
                                                          [](const auto& range) { return range.has_value(); }));
        case TransformKind::kPolicy:
            return count_policy_ops(step.policy);
        default:
            return 1;
    }
}

}  // namespace

std::optional<ImageSize> size_after(const std::vector<TransformStep>& steps, std::optional<ImageSize> before) {
    for (const TransformStep& step : steps) before = size_after_step(step, before);
    return before;
}

std::size_t count_resolved_steps(const std::vector<TransformStep>& steps) noexcept {
    std::size_t count = 0;
    for (const TransformStep& step : steps) count += count_resolved_steps(step);
    return count;
}

bool is_random(const TransformStep& step) noexcept {
    switch (step.kind) {
        case TransformKind::kResize:
        case TransformKind::kResizeShorterSide:
        case TransformKind::kCenterCrop:
        case TransformKind::kPad:
            return false;
        case TransformKind::kPixelOp:
            return !step.is_certain;
        default:
            return true;
    }
}

}  // namespace fastload

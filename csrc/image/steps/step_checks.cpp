#include "image/steps/step_checks.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fastload {
namespace {

constexpr double kLargestFloat = std::numeric_limits<float>::max();

// The first problem of several checks.
template <typename... Rest>
std::string first_of(std::string problem, Rest... rest) {
    if constexpr (sizeof...(rest) == 0) {
        return problem;
    } else {
        return problem.empty() ? first_of(std::move(rest)...) : problem;
    }
}

std::string check_side(const std::string& name, std::int32_t value) {
    return is_side(value) ? "" : sentence(name, "in 1..65535", value);
}

std::string check_size(const std::string& step, const TransformStep& checked) {
    return first_of(check_side(step + ".height", checked.height), check_side(step + ".width", checked.width));
}

std::string check_probability(const std::string& name, double probability) {
    return probability >= 0.0 && probability <= 1.0 ? "" : sentence(name + ".probability", "in [0, 1]", probability);
}

std::string pair_text(double first, double second) {
    std::ostringstream text;
    text << "(" << first << ", " << second << ")";
    return text.str();
}

std::string check_box_rule(const std::string& step, const RandomBoxRule& rule) {
    // They become float32.
    const auto is_ordered = [](const double* pair) { return pair[0] <= pair[1] && pair[1] <= kLargestFloat; };
    if (!is_ordered(rule.scale) || rule.scale[0] < 0.0) {
        return sentence(step + ".scale", "two float32 numbers with 0 <= first <= second",
                        pair_text(rule.scale[0], rule.scale[1]));
    }
    if (!is_ordered(rule.ratio) || !(rule.ratio[0] > 0.0)) {
        return sentence(step + ".ratio", "two float32 numbers with 0 < first <= second",
                        pair_text(rule.ratio[0], rule.ratio[1]));
    }
    return "";
}

std::string check_shorter_side(const std::string& step, const TransformStep& checked) {
    std::string problem = check_side(step + ".size", checked.size);
    if (!problem.empty() || checked.max_size == 0) return problem;
    problem = check_side(step + ".max_size", checked.max_size);
    if (!problem.empty() || checked.max_size > checked.size) return problem;
    return sentence(step + ".max_size", "greater than size", checked.max_size);
}

std::string check_padding(const std::string& step, const Padding& padding) {
    const auto check = [&](const char* side, std::int32_t value) {
        return value >= 0 && value <= kMaxImageSide ? "" : sentence(step + "." + side, "in 0..65535", value);
    };
    return first_of(check("left", padding.left), check("top", padding.top), check("right", padding.right),
                    check("bottom", padding.bottom));
}

std::string check_op(const std::string& name, const PixelOp& op) {
    switch (op.kind) {
        case PixelOpKind::kBrightness:
        case PixelOpKind::kContrast:
        case PixelOpKind::kSaturation:
        case PixelOpKind::kSharpness:
            return std::fabs(op.factor) <= kLargestFloat ? ""
                                                         : sentence(name + ".factor", "a float32 number", op.factor);
        case PixelOpKind::kHue:
            return std::fabs(op.factor) <= 0.5 ? "" : sentence(name + ".factor", "in [-0.5, 0.5]", op.factor);
        case PixelOpKind::kPosterize:
            return op.bits >= 1 && op.bits <= 8 ? "" : sentence(name + ".bits", "in 1..8", int{op.bits});
        case PixelOpKind::kSolarize:
            return std::isnan(op.threshold) ? sentence(name + ".threshold", "a number", op.threshold) : "";
        case PixelOpKind::kAffine: {
            const auto* bad =
                std::find_if(op.matrix.begin(), op.matrix.end(), [](double x) { return !std::isfinite(x); });
            return bad == op.matrix.end() ? "" : sentence(name + ".matrix", "six finite numbers", *bad);
        }
        default:
            return "";
    }
}

std::string check_jitter(const std::string& step, const ColorJitter& jitter) {
    constexpr const char* kNames[4] = {".brightness", ".contrast", ".saturation", ".hue"};
    for (std::size_t i = 0; i < 4; ++i) {
        if (!jitter.ranges[i]) continue;
        const bool is_hue = i == 3;
        const auto& [low, high] = *jitter.ranges[i];
        if ((is_hue ? -0.5 : 0.0) <= low && low <= high && high <= (is_hue ? 0.5 : kLargestFloat)) continue;
        return sentence(step + kNames[i],
                        is_hue ? "None or two numbers with -0.5 <= first <= second <= 0.5"
                               : "None or two float32 numbers with 0 <= first <= second",
                        pair_text(low, high));
    }
    return "";
}

// `expected` operations for each sign.
std::string check_choice(const std::string& name, const PolicyChoice& choice) {
    const std::size_t expected = std::size_t{choice.num_bins} * (choice.is_signed ? 2 : 1);
    if (choice.num_bins < 1 || choice.ops.size() != expected) {
        return sentence(name + ".ops", "one operation for each bin and sign, " + std::to_string(expected),
                        choice.ops.size());
    }
    for (std::size_t i = 0; i < choice.ops.size(); ++i) {
        std::string problem = check_op(name + ".ops[" + std::to_string(i) + "]", choice.ops[i]);
        if (!problem.empty()) return problem;
    }
    return check_probability(name, choice.probability);
}

std::string check_subpolicies(const std::string& step, const AugmentPolicy& policy) {
    if (policy.subpolicies.empty()) return step + ".policies must not be empty";
    for (std::size_t i = 0; i < policy.subpolicies.size(); ++i) {
        for (std::size_t k = 0; k < 2; ++k) {
            const std::string name = step + ".policies[" + std::to_string(i) + "][" + std::to_string(k) + "]";
            std::string problem = check_choice(name, policy.subpolicies[i][k]);
            if (!problem.empty()) return problem;
        }
    }
    return "";
}

std::string check_policy(const std::string& step, const AugmentPolicy& policy) {
    if (policy.rule == PolicyRule::kAutoAugment) return check_subpolicies(step, policy);
    if (policy.num_ops > kMaxPolicyOps) {
        return sentence(step + ".num_ops", "in 0.." + std::to_string(kMaxPolicyOps), policy.num_ops);
    }
    if (policy.choices.empty()) return step + ".choices must not be empty";
    for (std::size_t i = 0; i < policy.choices.size(); ++i) {
        const std::string name = step + ".choices[" + std::to_string(i) + "]";
        std::string problem = check_choice(name, policy.choices[i]);
        if (!problem.empty()) return problem;
        if (policy.rule == PolicyRule::kRandAugment && policy.choices[i].num_bins != 1) {
            return sentence(name + ".num_bins", "1 in a rand_augment", policy.choices[i].num_bins);
        }
    }
    return "";
}

std::string check_positions(const std::string& name, const std::vector<float>& positions) {
    if (positions.size() > kMaxBlurSize || positions.size() % 2 == 0) {
        return sentence(name, "an odd number of positions, at most " + std::to_string(kMaxBlurSize), positions.size());
    }
    const auto bad = std::find_if(positions.begin(), positions.end(), [](float x) { return !std::isfinite(x); });
    return bad == positions.end() ? "" : sentence(name, "finite numbers", *bad);
}

std::string check_erasing(const std::string& name, const TransformStep& step, const OutputLayout& layout) {
    const std::size_t expected = 3 * static_cast<std::size_t>(layout.element_size_bytes);
    if (step.erase_value.size() != expected) {
        return sentence(name + ".value", "3 * element_size = " + std::to_string(expected) + " bytes",
                        step.erase_value.size());
    }
    return first_of(check_probability(name, step.probability), check_box_rule(name, step.box_rule));
}

std::string check_step(const std::string& name, const TransformStep& step, const OutputLayout& layout);

// `is_nested`: of a random_apply.
std::string check_sequence(const std::string& name, const std::vector<TransformStep>& steps, bool is_nested,
                           const OutputLayout& layout) {
    bool has_erasing = false;
    for (std::size_t i = 0; i < steps.size(); ++i) {
        const std::string step_name = name + "[" + std::to_string(i) + "]";
        std::string problem = check_step(step_name, steps[i], layout);
        if (!problem.empty()) return problem;
        const bool is_erasing = steps[i].kind == TransformKind::kRandomErasing;
        if (is_erasing && is_nested)
            return step_name + " is a random_erasing, which cannot be inside of a random_apply";
        if (has_erasing && !is_erasing) {
            return step_name + " comes after a random_erasing, which works on finished elements and must be the last";
        }
        has_erasing = is_erasing;
    }
    return "";
}

std::string check_step(const std::string& name, const TransformStep& step, const OutputLayout& layout) {
    switch (step.kind) {
        case TransformKind::kRandomResizedCrop:
            return first_of(check_size(name, step), check_box_rule(name, step.box_rule));
        case TransformKind::kResize:
        case TransformKind::kCenterCrop:
        case TransformKind::kRandomCrop:
            return check_size(name, step);
        case TransformKind::kResizeShorterSide:
            return check_shorter_side(name, step);
        case TransformKind::kPad:
            return check_padding(name, step.padding);
        case TransformKind::kRandomHorizontalFlip:
        case TransformKind::kRandomVerticalFlip:
            return check_probability(name, step.probability);
        case TransformKind::kRandomApply:
            return first_of(check_probability(name, step.probability),
                            check_sequence(name + ".steps", step.steps, true, layout));
        case TransformKind::kPixelOp:
            return first_of(check_probability(name, step.probability), check_op(name + ".op", step.op));
        case TransformKind::kColorJitter:
            return check_jitter(name, step.jitter);
        case TransformKind::kPolicy:
            return check_policy(name, step.policy);
        case TransformKind::kGaussianBlur:
            return check_blur(name, step.blur);
        case TransformKind::kRandomErasing:
            return check_erasing(name, step, layout);
    }
    return name + ".kind is unknown";
}

}  // namespace

std::string check_blur(const std::string& step, const GaussianBlur& blur) {
    if (!(blur.sigma_from > 0.0F) || !(blur.sigma_from <= blur.sigma_to) || !std::isfinite(blur.sigma_to)) {
        return sentence(step + ".sigma", "two float32 numbers with 0 < first <= second",
                        pair_text(blur.sigma_from, blur.sigma_to));
    }
    if (blur.sum_lanes != 4 && blur.sum_lanes != 8 && blur.sum_lanes != 16) {
        return sentence(step + ".sum_lanes", "4, 8 or 16", blur.sum_lanes);
    }
    return first_of(check_positions(step + ".columns", blur.columns), check_positions(step + ".rows", blur.rows));
}

std::string check_layout(const OutputLayout& layout) {
    const int size = layout.element_size_bytes;
    if (size != 1 && size != 2 && size != 4 && size != 8) return sentence("element_size", "1, 2, 4 or 8", size);
    if (layout.table.empty()) return size == 1 ? "" : sentence("element_size", "1 where there is no table", size);
    const std::size_t expected = std::size_t{3} * 256 * static_cast<std::size_t>(size);
    if (layout.table.size() == expected) return "";
    return sentence("table", "3 * 256 * element_size = " + std::to_string(expected) + " bytes", layout.table.size());
}

std::string check_steps(const std::vector<TransformStep>& steps, const OutputLayout& layout) {
    return check_sequence("steps", steps, false, layout);
}

}  // namespace fastload

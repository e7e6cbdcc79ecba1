#include "image/steps/resolve_steps.h"

#include <optional>

#include "image/steps/random_erasing.h"

namespace fastload {
namespace {

Status invalid_size(const char* detail) noexcept { return {StatusCode::kInvalidGeometry, 0, 0, detail}; }

bool draw_chance(double probability, DrawSource* draws) noexcept {
    return draws->uniform() < static_cast<float>(probability);
}

Status resize_random_box(const TransformStep& step, DrawSource* draws, Resolver* resolver) noexcept {
    const Region box = choose_random_box(resolver->size(), step.box_rule, draws);
    if (box.width == 0 || box.height == 0) return invalid_size("a random crop of this image is empty");
    resolver->crop({box});
    resolver->resize({step.width, step.height}, step.interpolation);
    return Status::ok();
}

Status resize_shorter_side(const TransformStep& step, Resolver* resolver) noexcept {
    const LongSize size = resized_shorter_side(resolver->size(), step.size, step.max_size);
    if (!is_resized_side(size.width) || !is_resized_side(size.height)) {
        return invalid_size(
            "a side of the resized image is not in 1..1048576, as native images need (docs/transforms.md)");
    }
    resolver->resize({static_cast<std::int32_t>(size.width), static_cast<std::int32_t>(size.height)},
                     step.interpolation);
    return Status::ok();
}

Status crop_randomly(const TransformStep& step, DrawSource* draws, Resolver* resolver) noexcept {
    const ImageSize crop = {step.width, step.height};
    const Padding padding = padding_to_crop(resolver->size(), crop, step.crop_rule);
    if (!padding.is_empty()) {
        if (Status status = resolver->pad(padding); !status.is_ok()) return status;
    }
    if (resolver->size().width < crop.width || resolver->size().height < crop.height) {
        return invalid_size("a random crop is larger than the image");
    }
    resolver->crop({choose_random_crop(resolver->size(), crop, step.crop_rule.draws, draws)});
    return Status::ok();
}

Status apply_randomly(const TransformStep& step, DrawSource* draws, Resolver* resolver) noexcept {
    const float draw = draws->uniform();
    const auto probability = static_cast<float>(step.probability);
    const bool is_applied = step.draws == TorchvisionVersion::kV1 ? draw <= probability : draw < probability;
    return is_applied ? resolve_steps(step.steps, draws, resolver) : Status::ok();
}

void jitter_color(const ColorJitter& jitter, DrawSource* draws, Resolver* resolver) noexcept {
    const JitterOps chosen = draw_color_jitter(jitter, draws);
    for (std::size_t i = 0; i < chosen.count; ++i) resolver->run(chosen.ops[i]);
}

void augment(const AugmentPolicy& policy, DrawSource* draws, Resolver* resolver) noexcept {
    const PolicyOps chosen = draw_policy(policy, draws);
    for (std::size_t i = 0; i < chosen.count; ++i) resolver->run(*chosen.ops[i]);
}

Status blur_randomly(const GaussianBlur& blur, DrawSource* draws, Resolver* resolver) noexcept {
    return resolver->blur(blur, draws->uniform(blur.sigma_from, blur.sigma_to));
}

void erase_randomly(const TransformStep& step, DrawSource* draws, Resolver* resolver) noexcept {
    if (!draw_chance(step.probability, draws)) return;
    const std::optional<Region> box = choose_erased_box(resolver->size(), step.box_rule, draws);
    if (box) resolver->erase(*box, {step.erase_value.data(), step.erase_value.size()});
}

Status resolve_step(const TransformStep& step, DrawSource* draws, Resolver* resolver) noexcept {
    switch (step.kind) {
        case TransformKind::kRandomResizedCrop:
            return resize_random_box(step, draws, resolver);
        case TransformKind::kResize:
            resolver->resize({step.width, step.height}, step.interpolation);
            break;
        case TransformKind::kResizeShorterSide:
            return resize_shorter_side(step, resolver);
        case TransformKind::kCenterCrop:
            resolver->crop(center_crop(resolver->size(), {step.width, step.height}));
            break;
        case TransformKind::kPad:
            return resolver->pad(step.padding);
        case TransformKind::kRandomCrop:
            return crop_randomly(step, draws, resolver);
        case TransformKind::kRandomHorizontalFlip:
            if (draw_chance(step.probability, draws)) resolver->flip_horizontally();
            break;
        case TransformKind::kRandomVerticalFlip:
            if (draw_chance(step.probability, draws)) resolver->flip_vertically();
            break;
        case TransformKind::kRandomApply:
            return apply_randomly(step, draws, resolver);
        case TransformKind::kPixelOp:
            if (step.is_certain || draw_chance(step.probability, draws)) resolver->run(step.op);
            break;
        case TransformKind::kColorJitter:
            jitter_color(step.jitter, draws, resolver);
            break;
        case TransformKind::kPolicy:
            augment(step.policy, draws, resolver);
            break;
        case TransformKind::kGaussianBlur:
            return blur_randomly(step.blur, draws, resolver);
        case TransformKind::kRandomErasing:
            erase_randomly(step, draws, resolver);
            break;
    }
    return Status::ok();
}

}  // namespace

Status resolve_steps(const std::vector<TransformStep>& steps, DrawSource* draws, Resolver* resolver) noexcept {
    for (const TransformStep& step : steps) {
        draws->begin_step(step.position);
        if (Status status = resolve_step(step, draws, resolver); !status.is_ok()) return status;
    }
    return Status::ok();
}

}  // namespace fastload

// The steps of a pipeline as the user wrote them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "image/blur/gaussian_blur.h"
#include "image/pixels/padding.h"
#include "image/resize/resize_plan.h"
#include "image/steps/augment_policy.h"
#include "image/steps/color_jitter.h"
#include "image/steps/crop.h"
#include "image/steps/pixel_op.h"
#include "image/steps/random_crop.h"

namespace fastload {

enum class TransformKind : std::uint8_t {
    kRandomResizedCrop,     // box rule, then resize to width x height
    kResize,                // to width x height
    kResizeShorterSide,     // to `size`, bounded by `max_size`
    kCenterCrop,            // to width x height, padded with zeros where the image is smaller
    kPad,                   // by `padding`
    kRandomCrop,            // to width x height, by `crop_rule`
    kRandomHorizontalFlip,  // with `probability`
    kRandomVerticalFlip,    // with `probability`
    kRandomApply,           // all of `steps` with `probability`
    kPixelOp,               // `op`; without a draw where `is_certain`, else with `probability`
    kColorJitter,           // `jitter`
    kPolicy,                // `policy`
    kGaussianBlur,          // `blur`
    kRandomErasing,         // a box by `box_rule` becomes `erase_value`, with `probability`; on the finished elements
};

// One step. Each kind reads the members it needs.
struct TransformStep {
    TransformKind kind = TransformKind::kResize;
    std::uint32_t position = 0;  // in the user's pipeline; names the step's draws
    std::int32_t width = 0;
    std::int32_t height = 0;
    std::int32_t size = 0;
    std::int32_t max_size = 0;  // 0: none
    RandomBoxRule box_rule;
    double probability = 0.5;
    bool is_certain = false;
    TorchvisionVersion draws = TorchvisionVersion::kV1;
    Interpolation interpolation = Interpolation::kBilinear;
    Padding padding;
    RandomCropRule crop_rule;
    PixelOp op;
    ColorJitter jitter;
    AugmentPolicy policy;
    GaussianBlur blur;
    std::vector<std::uint8_t> erase_value;  // 3 elements of the output type
    std::vector<TransformStep> steps;
};

}  // namespace fastload

// The words of the step vocabulary, the same for reading and for describing steps.
#pragma once

#include <cstddef>
#include <utility>

#include "image/steps/transform_step.h"

namespace fastload {

constexpr std::pair<const char*, TransformKind> kTransformNames[] = {
    {"random_resized_crop", TransformKind::kRandomResizedCrop},
    {"resize", TransformKind::kResize},
    {"resize_shorter_side", TransformKind::kResizeShorterSide},
    {"center_crop", TransformKind::kCenterCrop},
    {"pad", TransformKind::kPad},
    {"random_crop", TransformKind::kRandomCrop},
    {"horizontal_flip", TransformKind::kRandomHorizontalFlip},
    {"vertical_flip", TransformKind::kRandomVerticalFlip},
    {"random_apply", TransformKind::kRandomApply},
    {"pixel_op", TransformKind::kPixelOp},
    {"color_jitter", TransformKind::kColorJitter},
    {"policy", TransformKind::kPolicy},
    {"gaussian_blur", TransformKind::kGaussianBlur},
    {"random_erasing", TransformKind::kRandomErasing},
};

constexpr std::pair<const char*, PixelOpKind> kPixelOpNames[] = {
    {"identity", PixelOpKind::kIdentity},
    {"brightness", PixelOpKind::kBrightness},
    {"contrast", PixelOpKind::kContrast},
    {"saturation", PixelOpKind::kSaturation},
    {"sharpness", PixelOpKind::kSharpness},
    {"hue", PixelOpKind::kHue},
    {"posterize", PixelOpKind::kPosterize},
    {"solarize", PixelOpKind::kSolarize},
    {"autocontrast", PixelOpKind::kAutocontrast},
    {"equalize", PixelOpKind::kEqualize},
    {"invert", PixelOpKind::kInvert},
    {"grayscale", PixelOpKind::kGrayscale},
    {"affine", PixelOpKind::kAffine},
    {"rotate90", PixelOpKind::kRotate90},
    {"rotate180", PixelOpKind::kRotate180},
    {"rotate270", PixelOpKind::kRotate270},
};

constexpr std::pair<const char*, Interpolation> kInterpolationNames[] = {
    {"nearest", Interpolation::kNearest}, {"box", Interpolation::kBox},         {"bilinear", Interpolation::kBilinear},
    {"hamming", Interpolation::kHamming}, {"bicubic", Interpolation::kBicubic}, {"lanczos", Interpolation::kLanczos},
};

constexpr std::pair<const char*, PaddingMode> kPaddingModeNames[] = {
    {"constant", PaddingMode::kConstant},
    {"edge", PaddingMode::kEdge},
    {"reflect", PaddingMode::kReflect},
    {"symmetric", PaddingMode::kSymmetric},
};

constexpr std::pair<const char*, TorchvisionVersion> kDrawsNames[] = {
    {"v1", TorchvisionVersion::kV1},
    {"v2", TorchvisionVersion::kV2},
};

constexpr std::pair<const char*, PolicyRule> kPolicyRuleNames[] = {
    {"rand_augment", PolicyRule::kRandAugment},
    {"trivial_augment", PolicyRule::kTrivialAugment},
    {"auto_augment", PolicyRule::kAutoAugment},
};

constexpr std::pair<const char*, ResizeOrder> kResizeOrderNames[] = {
    {"horizontal_first", ResizeOrder::kHorizontalFirst},
    {"pillow12_2", ResizeOrder::kPillow12_2},
    {"pillow13", ResizeOrder::kPillow13},
};

// The word for a value that is in the list.
template <typename Value, std::size_t kCount>
const char* name_of(const std::pair<const char*, Value> (&names)[kCount], Value value) {
    for (const auto& [name, named] : names) {
        if (named == value) return name;
    }
    return "";
}

}  // namespace fastload

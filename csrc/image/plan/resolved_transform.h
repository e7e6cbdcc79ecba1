// What a plan comes to for one sample.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/image_view.h"
#include "base/span.h"
#include "image/blur/gaussian_blur.h"
#include "image/pixels/padding.h"
#include "image/resize/resize_plan.h"
#include "image/steps/crop.h"
#include "image/steps/pixel_op.h"

namespace fastload {

enum class ResolvedKind : std::uint8_t {
    kCrop,
    kResize,
    kHorizontalFlip,
    kVerticalFlip,
    kPad,
    kPixelOp,
    kGaussianBlur,
    kErase
};

// One step with its draws made and its sizes known. Each kind reads the members it needs.
struct ResolvedStep {
    ResolvedKind kind = ResolvedKind::kCrop;
    Interpolation interpolation = Interpolation::kBilinear;  // kResize
    PaddedCrop crop;                                         // kCrop
    ImageSize size;                                          // kResize
    Region window;                                           // kResize: the part of its result that is needed
    Padding padding;                                         // kPad
    PixelOp op;                                              // kPixelOp
    const GaussianBlur* blur = nullptr;                      // kGaussianBlur: the plan's
    float sigma = 0.0F;                                      // kGaussianBlur
    Region erased;                                           // kErase
    std::array<std::uint8_t, 24> erase_value{};              // kErase: 3 elements
    std::size_t erase_value_bytes = 0;
};

constexpr std::size_t kMaxResolvedSteps = 32;

// Steps that change nothing are left out. Erasing comes last. It lives no longer than the plan that made it.
struct ResolvedTransform {
    std::vector<ResolvedStep> list;  // keeps its memory from sample to sample
    ImageSize source_size;
    ImageSize output_size;
    // The pixels of the source that the result depends on through crops; what the decoder must deliver. Never empty.
    Region source_region;
    // Whether torchvision would still have Image.info, what the file says besides the pixels: some of its operations
    // make another image, also where that has the same pixels.
    bool keeps_info = true;

    Span<const ResolvedStep> steps() const noexcept { return {list.data(), list.size()}; }
};

}  // namespace fastload

// A pipeline of geometric transforms with its last write, and what it comes to for one sample.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/image_view.h"
#include "base/span.h"
#include "base/status.h"
#include "image/crop.h"
#include "image/draw_source.h"
#include "image/output_layout.h"
#include "image/resize_plan.h"

namespace fastload {

enum class TransformKind : std::uint8_t {
    kRandomResizedCrop,    // box rule, then resize to width x height
    kResize,               // to width x height
    kResizeShorterSide,    // to `size`, bounded by `max_size`
    kCenterCrop,           // to width x height, padded with zeros where the image is smaller
    kRandomHorizontalFlip  // with `probability`
};

// One step as the user wrote it. Each kind reads the members it needs.
struct TransformStep {
    TransformKind kind = TransformKind::kResize;
    std::uint32_t position = 0;  // in the user's pipeline; names the step's draws
    std::int32_t width = 0;
    std::int32_t height = 0;
    std::int32_t size = 0;
    std::int32_t max_size = 0;  // 0: none
    RandomBoxRule box_rule;
    double probability = 0.5;
    Interpolation interpolation = Interpolation::kBilinear;
};

enum class ResolvedKind : std::uint8_t { kCrop, kResize, kHorizontalFlip };

// One step with its draws made and its sizes known.
struct ResolvedStep {
    ResolvedKind kind = ResolvedKind::kCrop;
    PaddedCrop crop;  // kCrop
    ImageSize size;   // kResize
    Interpolation interpolation = Interpolation::kBilinear;
};

constexpr std::size_t kMaxResolvedSteps = 16;

// What a plan comes to for one sample. Steps that change nothing are left out.
struct ResolvedTransform {
    std::array<ResolvedStep, kMaxResolvedSteps> storage;
    std::size_t step_count = 0;
    ImageSize source_size;
    // The pixels of the source that the result depends on through crops; what the decoder must deliver. Never empty.
    Region source_region;

    Span<const ResolvedStep> steps() const noexcept { return {storage.data(), step_count}; }
};

// Immutable after creation; shared by all threads.
class TransformPlan {
    struct OnlyInCreate {};  // make_shared needs a public constructor that nobody else can call

  public:
    explicit TransformPlan(OnlyInCreate) noexcept {}

    // Returns null and says in *problem which argument is wrong, its value and what is allowed, where the steps or the
    // layout make no sense, where a sample could need more than kMaxResolvedSteps, or where the size of the result
    // would depend on the source.
    static std::shared_ptr<TransformPlan> create(std::vector<TransformStep> steps, OutputLayout layout,
                                                 ResizeOrder resize_order, std::string* problem);

    ImageSize output_size() const noexcept { return output_size_; }
    std::size_t sample_bytes() const noexcept { return sample_bytes_; }
    const OutputLayout& layout() const noexcept { return layout_; }
    ResizeOrder resize_order() const noexcept { return resize_order_; }
    Span<const TransformStep> steps() const noexcept { return {steps_.data(), steps_.size()}; }

    // True where resolve() draws.
    bool is_random() const noexcept;

    // Makes the choices for one sample of `source` size with `draws`. Fails with kInvalidGeometry where a side of the
    // source is not in 1..kMaxImageSide, or one of a result between two steps not in 1..kMaxResizedSide.
    Status resolve(DrawSource* draws, ImageSize source, ResolvedTransform* out) const noexcept;

  private:
    std::vector<TransformStep> steps_;
    OutputLayout layout_;
    ResizeOrder resize_order_ = ResizeOrder::kHorizontalFirst;
    ImageSize output_size_;
    std::size_t sample_bytes_ = 0;
};

}  // namespace fastload

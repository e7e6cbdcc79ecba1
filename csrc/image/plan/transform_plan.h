// A pipeline of image transforms, including its last write.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "base/image_view.h"
#include "base/status.h"
#include "image/plan/normalization.h"
#include "image/plan/resolved_transform.h"
#include "image/plan/step.h"
#include "image/random/draw_source.h"
#include "image/resize/resize_plan.h"

namespace fastload {

struct PlanOptions {
    ResizeOrder resize_order = ResizeOrder::kHorizontalFirst;
    // Accepts steps whose result depends on the image's size; no steps at all give the decoded image.
    bool is_variable_size_allowed = false;
    std::optional<ImageSize> source_size = std::nullopt;  // if all images have the same size
};

// Immutable after creation; shared by all threads.
class TransformPlan {
    struct OnlyInCreate {};  // make_shared needs a public constructor that nobody else can call

  public:
    explicit TransformPlan(OnlyInCreate) noexcept {}

    // Returns null and sets *problem to the wrong argument, its value and what is allowed, if the steps or the layout
    // are invalid, if a sample could need more than kMaxOperations, or if the size of the result would depend on the
    // source and `options` do not allow that.
    static std::shared_ptr<TransformPlan> create(Steps steps, OutputLayout layout, const PlanOptions& options,
                                                 std::string* problem);

    // True if all results have the same size. If not, each sample's size is in its ResolvedTransform, and the two below
    // are 0.
    bool has_fixed_size() const noexcept { return sample_bytes_ != 0; }
    ImageSize output_size() const noexcept { return output_size_; }
    std::size_t sample_bytes() const noexcept { return sample_bytes_; }

    // Bytes of a result of `size`, sides in 1..kMaxResizedSide; false if they do not fit into the address space.
    bool count_bytes(ImageSize size, std::size_t* bytes) const noexcept;

    const OutputLayout& layout() const noexcept { return layout_; }

    // The formula of the layout's table, for ConvertJob.
    const Normalization* normalizations() const noexcept {
        return normalizations_.has_value() ? normalizations_->channels : nullptr;
    }
    ResizeOrder resize_order() const noexcept { return options_.resize_order; }

    // Makes room for the operations of any sample, so that resolve() allocates nothing. May throw std::bad_alloc.
    void reserve(ResolvedTransform* out) const { out->operations.reserve(max_operations_); }

    // True if resolve() draws.
    bool is_random() const noexcept;

    // Makes the choices for one sample of `source` size with `draws`. Fails with kInvalidGeometry if a side of the
    // source or of a result between two steps is not in 1..kMaxResizedSide, if the source does not have the size that
    // the plan was made for, or if a random crop is larger than the image; fails with kOutOfMemory if there is neither
    // room nor memory for the operations.
    Status resolve(DrawSource* draws, ImageSize source, ResolvedTransform* out) const noexcept;

  private:
    Steps steps_;
    OutputLayout layout_;
    std::optional<Normalizations> normalizations_;
    PlanOptions options_;
    ImageSize output_size_;
    std::size_t sample_bytes_ = 0;
    std::size_t max_operations_ = 0;
};

}  // namespace fastload

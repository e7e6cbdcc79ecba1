// Lists the operations of one sample.
#pragma once

#include "base/image_view.h"
#include "image/plan/placement.h"
#include "image/plan/resolved_transform.h"

namespace fastload {

// Lists operations, and tracks the size and the needed pixels. A step that lists an operation also calls the function
// that says what the operation does to the image, in the same order. The plan has made room for as many operations as
// its steps announce.
class Resolver {
  public:
    Resolver(ImageSize source, ResolvedTransform* out) noexcept;

    ImageSize size() const noexcept { return placement_.size; }

    // Lists an operation that is made for this sample, or one that a step of the plan holds.
    template <typename Made>
    Made& make(const Made& operation) noexcept {
        return out_->operations.make(operation);
    }
    void add(const Operation& operation) noexcept { out_->operations.add(operation); }

    // Call if torchvision makes another image here, without Image.info.
    void drop_info() noexcept { out_->keeps_info = false; }

    // Call if the image is cropped, padded with zeros or mirrored: no pixel moves.
    void crop(const PaddedCrop& crop) noexcept { placement_.crop(crop); }
    void flip() noexcept { placement_.flip(); }

    // Call if the pixels are needed as they are now, and become a separate image of `size`.
    void move_pixels(ImageSize size) noexcept;
    // The same for `operation`, listed last, which is told which part of its result is needed.
    void move_needed_pixels(PartialOperation* operation, ImageSize size) noexcept;

    void finish() noexcept;

  private:
    // Tells the last operation that moves needed pixels which ones they are, and passes the pixels that it reads on to
    // the operation before it or to the source.
    void note_needed_pixels() noexcept;

    ResolvedTransform* out_;
    Placement placement_;  // on the result of the last operation that moved pixels; on the source before there is one
    bool has_source_region_ = false;
    // The last operation that moved pixels, if it is a partial one, and what it reads. Otherwise null.
    PartialOperation* partial_ = nullptr;
    Placement partial_input_;
};

}  // namespace fastload

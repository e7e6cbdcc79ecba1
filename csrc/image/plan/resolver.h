// Writes down the operations of one sample.
#pragma once

#include "base/image_view.h"
#include "image/plan/placement.h"
#include "image/plan/resolved_transform.h"

namespace fastload {

// Lists operations, and follows the size and the pixels that are needed. Whoever lists one says what it does to the
// image, in the same order. The plan has made room for as many operations as its steps announce.
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

    // Torchvision makes another image of it, without Image.info.
    void drop_info() noexcept { out_->keeps_info = false; }

    // The image is cropped, padded with zeros or mirrored: no pixel moves.
    void crop(const PaddedCrop& crop) noexcept { placement_.crop(crop); }
    void flip() noexcept { placement_.flip(); }

    // The pixels are needed as they are now, and become an image of `size` of its own.
    void move_pixels(ImageSize size) noexcept;
    // The same by `operation`, listed last, which is told which part of its result is needed.
    void move_needed_pixels(PartialOperation* operation, ImageSize size) noexcept;

    void finish() noexcept;

  private:
    // Tells the last operation that moves needed pixels which they are, and the source or the one before it what that
    // takes.
    void note_needed_pixels() noexcept;

    ResolvedTransform* out_;
    Placement placement_;  // of what the last operation that moved pixels has made; of the source before there is one
    bool has_source_region_ = false;
    // Where the last operation that moved pixels is a partial one: it, and what it reads. Else null.
    PartialOperation* partial_ = nullptr;
    Placement partial_input_;
};

}  // namespace fastload

// Writes down the concrete steps of one sample.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/image_view.h"
#include "base/span.h"
#include "base/status.h"
#include "image/plan/placement.h"
#include "image/plan/resolved_transform.h"

namespace fastload {

constexpr bool is_resized_side(std::int64_t value) noexcept { return value >= 1 && value <= kMaxResizedSide; }

// Appends concrete steps, and follows the size and the pixels that are needed. The caller proves that there is room for
// the steps.
class Resolver {
  public:
    Resolver(ImageSize source, ResolvedTransform* out) noexcept;

    ImageSize size() const noexcept { return placement_.size; }

    void crop(const PaddedCrop& crop) noexcept;
    // An image that has the size already is left alone, as in torchvision and in Pillow.
    void resize(ImageSize to, Interpolation interpolation) noexcept;
    void flip_horizontally() noexcept;
    void flip_vertically() noexcept;
    // Fails with kInvalidGeometry where a side would be larger than kMaxResizedSide.
    Status pad(const Padding& padding) noexcept;
    void run(const PixelOp& op) noexcept;
    // Fails with kInvalidGeometry where the kernel reaches over more than the image. `blur` outlives the steps.
    Status blur(const GaussianBlur& blur, float sigma) noexcept;
    // Of the finished sample; `value` has at most 24 bytes.
    void erase(const Region& box, Span<const std::uint8_t> value) noexcept;

    void finish() noexcept;

  private:
    ResolvedStep& append(ResolvedKind kind) noexcept;
    // The pixels are needed as they are now, and become an image of `size` of its own.
    void move_pixels(ImageSize size) noexcept;
    // Tells the last resize which part of its result is needed, and the source or the resize before it what that takes.
    void note_needed_pixels() noexcept;

    ResolvedTransform* out_;
    Placement placement_;  // of what the last step that moved pixels has made; of the source before there is one
    bool has_source_region_ = false;
    // Where the last step that moved pixels is a resize that is made in parts: its position in the list, and the pixels
    // it reads. Else the position is kNone.
    static constexpr std::size_t kNone = SIZE_MAX;
    std::size_t resize_position_ = kNone;
    Placement resize_input_;
};

}  // namespace fastload

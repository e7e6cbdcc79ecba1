// Pillow's resampling weights and pass order for one resize of one image.
#pragma once

#include <cstdint>
#include <utility>

#include "base/aligned_buffer.h"
#include "base/enum_names.h"
#include "base/image_view.h"
#include "base/status.h"
#include "device/scan_wire.h"
#include "kernels/resize.h"

namespace fastload {

// kNearest has no weights: image/pixels/nearest_axis.h. The others are Pillow's filters of these names.
enum class Interpolation : std::uint8_t { kNearest, kBox, kBilinear, kHamming, kBicubic, kLanczos };

template <>
struct EnumNames<Interpolation> {
    static constexpr const char* kArgument = "interpolation";
    static constexpr std::pair<const char*, Interpolation> kNames[] = {
        {"nearest", Interpolation::kNearest},   {"box", Interpolation::kBox},
        {"bilinear", Interpolation::kBilinear}, {"hamming", Interpolation::kHamming},
        {"bicubic", Interpolation::kBicubic},   {"lanczos", Interpolation::kLanczos}};
};

// The order of the passes changes results by one grey level here and there, so it follows the installed Pillow.
enum class ResizeOrder : std::uint8_t {
    kHorizontalFirst,  // up to 12.1
    kPillow12_2,       // 12.2 and 12.3: vertical first if the image is over 100 times as high as wide and loses rows
    // From 13.0 on: vertical first if the height loses pixels, and more than twice as many as the width does (sizes
    // before minus sizes after; a width that grows counts as a negative loss).
    kPillow13,
};

template <>
struct EnumNames<ResizeOrder> {
    static constexpr const char* kArgument = "resize_order";
    static constexpr std::pair<const char*, ResizeOrder> kNames[] = {
        {"horizontal_first", ResizeOrder::kHorizontalFirst},
        {"pillow12_2", ResizeOrder::kPillow12_2},
        {"pillow13", ResizeOrder::kPillow13}};
};

// Depends on the sizes of whole images, even if only a box of one is resized.
bool is_vertical_first(ResizeOrder order, ImageSize from, ImageSize to) noexcept;

// A part of an image, in pixels and fractions of one. Pillow stores it as float32, and sums use that.
struct FloatBox {
    float left = 0.0F;
    float top = 0.0F;
    float right = 0.0F;
    float bottom = 0.0F;
};

// `box` of a `from` image becomes a `to` image. Weights also reach over pixels around the box. Sides are in
// 1..kMaxResizedSide; the box lies inside of the image, and its sides are above 0.
struct ResizeShape {
    ImageSize from;
    ImageSize to;
    FloatBox box;

    // The shape for a whole image.
    ResizeShape(ImageSize source, ImageSize result) noexcept
        : ResizeShape(source, {0.0F, 0.0F, static_cast<float>(source.width), static_cast<float>(source.height)},
                      result) {}
    ResizeShape(ImageSize source, const FloatBox& part, ImageSize result) noexcept
        : from(source), to(result), box(part) {}

    bool has_whole_width() const noexcept { return box.left == 0.0F && box.right == static_cast<float>(from.width); }
    bool has_whole_height() const noexcept { return box.top == 0.0F && box.bottom == static_cast<float>(from.height); }
};

// The part of the image that determines `window` of the result, for any interpolation but kNearest.
Region resize_source(const ResizeShape& shape, const Region& window, Interpolation interpolation) noexcept;

// Sets what a device needs to make `window` of the result from resize_source() of it: the axes, the filter and the
// order. False if a device cannot compute the weights of this interpolation.
bool describe_resize(const ResizeShape& shape, const Region& window, Interpolation interpolation, ResizeOrder order,
                     ScanHead* head) noexcept;

struct ResizedAxis;

// Tap tables of the current resize; one per thread.
class ResizePlan {
  public:
    ResizePlan() = default;
    ResizePlan(const ResizePlan&) = delete;  // the job points into it
    ResizePlan& operator=(const ResizePlan&) = delete;

    // Computes the tables for `shape`, which changes something, with any interpolation but kNearest. An axis that does
    // not change has no pass, as in Pillow. The job makes `window` of the result from resize_source() of it. It is
    // valid until the next call.
    Status prepare(const ResizeShape& shape, const Region& window, Interpolation interpolation,
                   ResizeOrder order) noexcept;
    // The job for all of the result of resizing a whole image.
    Status prepare(ImageSize from, ImageSize to, Interpolation interpolation, ResizeOrder order) noexcept {
        return prepare({from, to}, {0, 0, to.width, to.height}, interpolation, order);
    }

    const ResizeJob& job() const noexcept { return job_; }
    std::size_t scratch_bytes() const noexcept;
    void release_scratch(ScratchRule rule) noexcept;

  private:
    struct Axis {
        AlignedBuffer memory;
        AxisTaps taps;
    };
    // The taps of the outputs [begin, begin + count).
    Status prepare_axis(const ResizedAxis& resized, std::int32_t begin, std::int32_t count, Interpolation interpolation,
                        Axis* axis) noexcept;

    Axis horizontal_;
    Axis vertical_;
    AlignedBuffer weights_;  // of one output, as doubles
    ResizeJob job_;
};

}  // namespace fastload

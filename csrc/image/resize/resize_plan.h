// Pillow's resampling weights and pass order for one resize of one image.
#pragma once

#include <cstdint>
#include <utility>

#include "base/aligned_buffer.h"
#include "base/enum_names.h"
#include "base/image_view.h"
#include "base/status.h"
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

// Which pass runs first changes results by one grey level here and there, so it follows the installed Pillow.
enum class ResizeOrder : std::uint8_t {
    kHorizontalFirst,  // up to 12.1
    kPillow12_2,       // 12.2 and 12.3: vertical first where the image is over 100 times as high as wide and loses rows
    // From 13.0 on: vertical first where the height loses pixels, and more than twice as many as the width does
    // (sizes before minus sizes after; a width that grows counts as a negative loss).
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

bool is_vertical_first(ResizeOrder order, ImageSize from, ImageSize to) noexcept;

// The part of a `from` image that decides `window` of its resize to `to`, with any interpolation but kNearest.
Region resize_source(ImageSize from, ImageSize to, const Region& window, Interpolation interpolation) noexcept;

// Tap tables of the current resize; one per thread. Memory grows to the largest need and stays.
class ResizePlan {
  public:
    ResizePlan() = default;
    ResizePlan(const ResizePlan&) = delete;  // the job points into it
    ResizePlan& operator=(const ResizePlan&) = delete;

    // Computes the tables for `from` -> `to`, sides in 1..kMaxResizedSide, of which at least one differs, with any
    // interpolation but kNearest. An axis whose size stays has no pass, as in Pillow. The job gives `window` of the
    // result, and its source is resize_source() of it. It is valid until the next call.
    Status prepare(ImageSize from, ImageSize to, const Region& window, Interpolation interpolation,
                   ResizeOrder order) noexcept;
    // All of the result.
    Status prepare(ImageSize from, ImageSize to, Interpolation interpolation, ResizeOrder order) noexcept {
        return prepare(from, to, {0, 0, to.width, to.height}, interpolation, order);
    }

    const ResizeJob& job() const noexcept { return job_; }
    std::size_t scratch_bytes() const noexcept;

  private:
    struct Axis {
        AlignedBuffer memory;
        AxisTaps taps;
    };
    // Of the outputs [begin, begin + count).
    Status prepare_axis(std::int32_t from, std::int32_t to, std::int32_t begin, std::int32_t count,
                        Interpolation interpolation, Axis* axis) noexcept;

    Axis horizontal_;
    Axis vertical_;
    AlignedBuffer weights_;  // of one output, as doubles
    ResizeJob job_;
};

}  // namespace fastload

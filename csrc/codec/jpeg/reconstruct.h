// From decoded blocks to RGB: the planes of a region, upsampling, colour.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/aligned_buffer.h"
#include "base/image_view.h"
#include "base/status.h"
#include "codec/jpeg/markers.h"
#include "kernels/kernel_table.h"

namespace fastload::jpeg {

// Note [decode window]
// A region is decoded as a window of whole interleaved MCUs: those that hold its samples and, for components that are
// upsampled by a filter, one sample more on each side inside the image. Example: 4:2:0, region columns [32, 64):
// luma needs MCUs 2 and 3, chroma samples 15..32 with their neighbours, so MCUs 1..4 are decoded: window [1, 5).
struct McuWindow {
    std::int32_t left = 0;  // MCU columns [left, right), rows [top, bottom)
    std::int32_t right = 0;
    std::int32_t top = 0;
    std::int32_t bottom = 0;
};

McuWindow decode_window(const Frame& frame, const Region& region) noexcept;

enum class Upsampling : std::uint8_t { kNone, kH2v1, kH1v2, kH2v2, kReplicate };

Upsampling upsampling_of(const FrameComponent& component) noexcept;

// Owns the planes. For each image: prepare(), blocks written through block(), then
// mcu_row_is_complete() once for each row of the window from top to bottom, then view().
class Reconstructor {
  public:
    explicit Reconstructor(const KernelTable& kernels) : kernels_(kernels) {}

    // Lays out the planes for `region`, which lies inside the frame. `frame` must live until view().
    Status prepare(const Frame& frame, ColorModel color, const Region& region) noexcept;

    const McuWindow& window() const noexcept { return window_; }

    // The output of the block (block_column, block_row) of a component: 64 bytes of a column strip. The block lies in
    // the window: horizontal * window().left <= block_column < horizontal * window().right, the same vertically. The
    // block to the right follows directly.
    std::uint8_t* block(int component, std::int32_t block_column, std::int32_t block_row) const noexcept;

    // Call when all blocks of MCU row `mcu_row` are written. Upsamples and converts the rows that this completes.
    void mcu_row_is_complete(std::int32_t mcu_row) noexcept;

    StripImageView view() const noexcept { return view_; }
    std::size_t scratch_bytes() const noexcept;
    void release_scratch(ScratchRule rule) noexcept;

  private:
    // A component's samples at its own resolution, from the window's first block on.
    struct Plane {
        Upsampling upsampling = Upsampling::kNone;
        std::uint8_t* samples = nullptr;  // of strip 0, column 0
        std::size_t strip_stride_bytes = 0;
        std::uint8_t* upsampled = nullptr;  // strip 0 at full resolution; == samples for kNone
        std::int32_t columns = 0;           // real ones; the window may hold padding after them
        std::int32_t rows = 0;
    };

    Status lay_out_planes() noexcept;
    void pad_columns(const FrameComponent& component, const Plane& plane, std::int32_t mcu_row) const noexcept;
    void pad_top(const Plane& plane) const noexcept;
    void pad_bottom(const Plane& plane) const noexcept;
    void emit_mcu_row(std::int32_t mcu_row) const noexcept;
    void upsample_strip(const FrameComponent& component, const Plane& plane, std::int32_t strip) const noexcept;
    void convert_strips(std::int32_t mcu_row) const noexcept;

    const KernelTable& kernels_;
    const Frame* frame_ = nullptr;
    ColorModel color_ = ColorModel::kGray;
    McuWindow window_;
    bool needs_row_below_ = false;
    std::size_t full_stride_bytes_ = 0;
    Plane planes_[kMaxComponents];
    AlignedBuffer samples_[kMaxComponents];
    AlignedBuffer upsampled_[kMaxComponents];
    StripImageView view_;
};

}  // namespace fastload::jpeg

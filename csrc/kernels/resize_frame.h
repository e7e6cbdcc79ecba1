// Facts about a resize job that every kernel needs before it touches pixels.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/checked_math.h"
#include "base/image_view.h"
#include "kernels/float_planes.h"
#include "kernels/resize.h"

namespace fastload {

constexpr std::size_t padded_to(std::size_t count, std::size_t block) noexcept {
    return (count + block - 1) / block * block;
}

constexpr std::size_t padded_width(std::int32_t width) noexcept {
    return padded_to(static_cast<std::size_t>(width), kResizeRowAlignment);
}

inline bool runs_vertical_first(const ResizeJob& job) noexcept {
    return job.horizontal != nullptr && job.vertical != nullptr && job.is_vertical_first;
}

// The largest number of strips that a window of `height` rows can touch.
inline std::size_t most_strips(std::int32_t height) noexcept {
    return static_cast<std::size_t>(height) / kStripRows + 2;
}

struct StripRange {
    std::size_t first_strip;
    std::size_t strip_count;
};

// The strips that hold the rows of the source that the result depends on.
inline StripRange needed_strips(const StripImageView& source, const ResizeJob& job) noexcept {
    std::int32_t begin = 0;
    std::int32_t end = source.height;
    if (job.vertical != nullptr) {
        begin = job.vertical->first[0];
        end = job.vertical->first[job.height - 1] + job.vertical->count[job.height - 1];
    }
    const std::size_t first_strip = static_cast<std::size_t>(source.top + begin) / kStripRows;
    const std::size_t last_strip = static_cast<std::size_t>(source.top + end - 1) / kStripRows;
    return {first_strip, last_strip - first_strip + 1};
}

// Cuts one piece of scratch memory into parts that start on 64 bytes: once without memory, to learn the size, and once
// with it.
class ScratchCutter {
  public:
    explicit ScratchCutter(std::uint8_t* memory) noexcept : memory_(memory) {}

    // `count` elements of `element_bytes`. The pointer may not be used where has_overflowed(), or without memory.
    std::uint8_t* take(std::size_t count, std::size_t element_bytes) noexcept {
        std::uint8_t* part = memory_ == nullptr ? nullptr : memory_ + size_;
        std::size_t bytes = 0;
        has_overflowed_ |= !checked_multiply(count, element_bytes, &bytes) || !checked_round_up(bytes, 64, &bytes) ||
                           !checked_add(size_, bytes, &size_);
        return part;
    }

    std::size_t size() const noexcept { return size_; }
    bool has_overflowed() const noexcept { return has_overflowed_; }

  private:
    std::uint8_t* memory_;
    std::size_t size_ = 0;
    bool has_overflowed_ = false;
};

// What the vector kernels do around their passes, with parts of their own:
// - Workspace(size of the window, job, cutter) cuts the scratch memory; its `horizontal` and `vertical` are the taps of
//   an axis in the kernel's form, and horizontal.columns() says how many source columns that reads at least; its
//   `finished_rows` have room for kFinishedRows rows of the result;
// - pack_taps(taps, outputs, length, packed) brings taps into that form;
// - Plane<Output>{source, job, workspace, output, range, first row of the needed strips, plane}.run() resizes a plane.
// An Output says with row(plane, y) where row y of the result is to be made, and is told with finish(plane, begin, end)
// that [begin, end) are; of these there are kFinishedRows at most between two calls of finish.

constexpr std::size_t kFinishedRows = 16;

// Rows that stay where they are.
struct PlainRows {
    const PlanarImageView& destination;

    std::uint8_t* row(int plane, std::ptrdiff_t y) const noexcept {
        return destination.planes[plane] + static_cast<std::size_t>(y) * destination.row_stride_bytes;
    }
    void finish(int /*plane*/, std::ptrdiff_t /*begin*/, std::ptrdiff_t /*end*/) const noexcept {}
};

// Rows that become float32 and give their place to others.
template <typename ChannelWriter>
class FloatRows {
  public:
    FloatRows(const ResizeJob& job, const ConvertJob& convert, void* destination, std::uint8_t* finished_rows) noexcept
        : planes_(convert, destination),
          rows_(finished_rows),
          width_(static_cast<std::size_t>(job.width)),
          stride_bytes_(padded_width(job.width)),
          left_(static_cast<std::size_t>(convert.left)),
          top_(static_cast<std::size_t>(convert.top)) {}

    std::uint8_t* row(int /*plane*/, std::ptrdiff_t y) const noexcept {
        return rows_ + static_cast<std::size_t>(y) % kFinishedRows * stride_bytes_;
    }
    void finish(int plane, std::ptrdiff_t begin, std::ptrdiff_t end) const noexcept {
        for (std::ptrdiff_t y = begin; y < end; ++y) {
            planes_.template write<true>(plane, row(plane, y), width_, left_, top_ + static_cast<std::size_t>(y));
        }
    }

  private:
    FloatPlanes<ChannelWriter> planes_;
    std::uint8_t* rows_;
    std::size_t width_;
    std::size_t stride_bytes_;
    std::size_t left_;
    std::size_t top_;
};

template <typename Workspace>
bool scratch_bytes_of(ImageSize source, const ResizeJob& job, std::size_t* scratch_bytes) noexcept {
    ScratchCutter scratch(nullptr);
    const Workspace workspace(source, job, &scratch);
    *scratch_bytes = scratch.size();
    return !scratch.has_overflowed();
}

template <typename Workspace>
Workspace prepare_workspace(const StripImageView& source, const ResizeJob& job, std::uint8_t* scratch) noexcept {
    ScratchCutter cutter(scratch);
    Workspace workspace({source.width, source.height}, job, &cutter);
    if (job.horizontal != nullptr) {
        const auto columns = static_cast<std::int32_t>(workspace.horizontal.columns());
        pack_taps(*job.horizontal, job.width, std::max(source.width, columns), &workspace.horizontal);
    }
    if (job.vertical != nullptr) pack_taps(*job.vertical, job.height, INT32_MAX, &workspace.vertical);
    return workspace;
}

template <template <typename> class Plane, typename Workspace, typename Output>
void resize_planes(const StripImageView& source, const ResizeJob& job, const Workspace& workspace,
                   const Output& output) noexcept {
    const StripRange range = needed_strips(source, job);
    const std::ptrdiff_t first_row = static_cast<std::ptrdiff_t>(range.first_strip * kStripRows) - source.top;
    for (int plane = 0; plane < 3; ++plane) {
        Plane<Output>{source, job, workspace, output, range, first_row, plane}.run();
    }
}

// All of a resize that ends in planes of float32, but for the fence.
template <template <typename> class Plane, typename Workspace, typename ChannelWriter>
void resize_to_floats(const StripImageView& source, const ResizeJob& job, std::uint8_t* scratch,
                      const ConvertJob& convert, void* destination) noexcept {
    convert_padding_scalar({job.width, job.height}, convert, destination);
    const auto workspace = prepare_workspace<Workspace>(source, job, scratch);
    const FloatRows<ChannelWriter> rows(job, convert, destination, workspace.finished_rows);
    resize_planes<Plane>(source, job, workspace, rows);
}

}  // namespace fastload

// Code around the passes of a resize that kernels share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

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

// Cuts one piece of scratch memory into parts that start at multiples of 64 bytes. It runs once without memory, to
// learn the size, and once with it.
class ScratchCutter {
  public:
    explicit ScratchCutter(std::uint8_t* memory) noexcept : memory_(memory) {}

    // Takes `count` elements of `element_bytes`. Do not use the pointer if has_overflowed(), or without memory.
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

// The kernels share the code around their passes. Each brings these parts, in its unnamed namespace:
// - pack_taps(taps, outputs, length, packed) writes the taps of an axis in the kernel's form.
// - Workspace(size of the window, job, cutter), a SharedWorkspace, cuts the scratch memory. Its own members:
//   - Rows: pointers to the rows of kStrips strips, 8 a strip;
//   - filter_strips(strips, width, rows): the horizontal filter, kStrips strips to rows;
//   - filter_to_middle(strips, index, width) and copy_to_middle(strip, index, width): fill the rows between the passes
//     from strip `index` on, filtered and as they are;
//   - filter_row(first_row, y, width, output): the vertical filter, one row; the rows between the passes start with the
//     window's row `first_row`, which is negative if a strip begins above the window;
//   - filter_to_strips(first_row, y, width): the vertical filter, rows from y on to `strips`. Rows after the last one
//     may have any values.
// An Output returns from row(plane, y) where row y of the result is to be written; finish(plane, begin, end) tells it
// that rows [begin, end) are written. At most kFinishedRows rows are written between two calls of finish.

constexpr std::size_t kFinishedRows = 16;

// Vector kernels make this many outputs of an axis together.
constexpr std::size_t kBlockOutputs = 16;

// The taps of an axis in the form of a vector kernel: each output has `unit_count` units of Form::kTaps taps, which
// take Form::kBytes. Packing writes at most Form::kOverrun bytes after the last unit.
template <typename Form>
struct PackedTaps {
    std::int32_t* first = nullptr;
    std::uint8_t* units = nullptr;  // [output][unit_count][Form::kBytes]
    std::int32_t unit_count = 0;

    std::size_t columns() const noexcept { return Form::kTaps * static_cast<std::size_t>(unit_count); }
    std::size_t output_bytes() const noexcept { return Form::kBytes * static_cast<std::size_t>(unit_count); }

    // Makes room for the taps of `outputs` outputs, in whole blocks.
    void take(const AxisTaps& taps, std::int32_t outputs, ScratchCutter* scratch) noexcept {
        std::int32_t most = 0;
        for (std::int32_t i = 0; i < outputs; ++i) most = taps.count[i] > most ? taps.count[i] : most;
        unit_count = static_cast<std::int32_t>((static_cast<std::size_t>(most) + Form::kTaps - 1) / Form::kTaps);
        const std::size_t padded = padded_to(static_cast<std::size_t>(outputs), kBlockOutputs);
        first = reinterpret_cast<std::int32_t*>(scratch->take(padded, sizeof(std::int32_t)));
        units = scratch->take(padded, output_bytes());
        scratch->take(1, Form::kOverrun);
    }

    // Packs the taps so that the units of an output lie inside of [0, length): a unit that would reach over the end
    // starts earlier, with zeros. pack_units(coefficients, shift, count, units) packs `count` coefficients after
    // `shift` zeros. Outputs up to the next multiple of a block are zeros at the last position.
    template <typename PackUnits>
    void pack(const AxisTaps& taps, std::int32_t outputs, std::int32_t length, PackUnits pack_units) noexcept {
        const std::int32_t last_start = length - static_cast<std::int32_t>(columns());
        std::uint8_t* output = units;
        for (std::int32_t i = 0; i < outputs; ++i) {
            first[i] = taps.first[i] < last_start ? taps.first[i] : last_start;
            pack_units(taps.coefficients + static_cast<std::size_t>(i) * static_cast<std::size_t>(taps.stride),
                       taps.first[i] - first[i], taps.count[i], output);
            output += output_bytes();
        }
        const auto count = static_cast<std::size_t>(outputs);
        const std::size_t padded = padded_to(count, kBlockOutputs);
        std::memset(output, 0, (padded - count) * output_bytes());
        for (std::size_t i = count; i < padded; ++i) first[i] = first[count - 1];
    }
};

// The parts of the scratch memory that all kernels have.
template <typename Taps, std::size_t kStripsAtOnce>
struct SharedWorkspace {
    static constexpr std::size_t kStrips = kStripsAtOnce;  // that the horizontal filter takes at once

    Taps horizontal;  // horizontal.columns() is the least number of source columns that it reads
    Taps vertical;
    std::size_t middle_width = 0;           // of the rows between the passes, padded
    std::uint8_t* strips[kStrips] = {};     // for windows narrower than that, and if the vertical filter runs first
    std::uint8_t* unused_row = nullptr;     // takes rows that are no part of the result
    std::uint8_t* finished_rows = nullptr;  // room for kFinishedRows rows of the result

    SharedWorkspace(ImageSize source, const ResizeJob& job, ScratchCutter* scratch) noexcept {
        finished_rows = scratch->take(kFinishedRows, padded_width(job.width));
        if (job.horizontal != nullptr) {
            horizontal.take(*job.horizontal, job.width, scratch);
            const std::size_t columns = std::max(padded_width(source.width), horizontal.columns());
            for (std::uint8_t*& strip : strips) strip = scratch->take(columns, kStripRows);
            unused_row = scratch->take(padded_width(job.width), 1);
        }
        if (job.vertical == nullptr) return;
        vertical.take(*job.vertical, job.height, scratch);
        const bool is_source_wide = runs_vertical_first(job) || job.horizontal == nullptr;
        middle_width = padded_width(is_source_wide ? source.width : job.width);
    }
};

struct StripRows {
    std::uint8_t* rows[kStripRows];
};

// The workspace of a kernel whose rows between the passes are plain ones. The kernel has filter_strip(strip, taps,
// width, rows), the horizontal filter for a strip from its first column on.
template <typename Taps>
struct RowsWorkspace : SharedWorkspace<Taps, 1> {
    using Rows = StripRows;

    std::uint8_t* middle = nullptr;
    std::uint8_t* eight_rows = nullptr;  // results of the vertical filter if it runs first, before they are a strip

    RowsWorkspace(ImageSize source, const ResizeJob& job, ScratchCutter* scratch) noexcept
        : SharedWorkspace<Taps, 1>(source, job, scratch) {
        if (job.vertical == nullptr) return;
        const std::size_t rows = most_strips(source.height) * kStripRows + this->vertical.columns();
        middle = scratch->take(rows, this->middle_width);
        if (runs_vertical_first(job)) eight_rows = scratch->take(kStripRows, this->middle_width);
    }

    void filter_strips(const std::uint8_t* const* from, std::size_t width, const Rows& output) const noexcept {
        filter_strip(*from, this->horizontal, width, output);
    }
    void filter_to_middle(const std::uint8_t* const* from, std::size_t index, std::size_t width) const noexcept {
        Rows rows;
        for (std::size_t r = 0; r < kStripRows; ++r) rows.rows[r] = middle_row(kStripRows * index + r);
        filter_strip(*from, this->horizontal, width, rows);
    }

    std::uint8_t* middle_row(std::size_t row) const noexcept { return middle + row * this->middle_width; }
    // The first of the rows that the taps of output y weigh.
    const std::uint8_t* rows_of(std::size_t y, std::ptrdiff_t first_row) const noexcept {
        return middle_row(static_cast<std::size_t>(this->vertical.first[y] - first_row));
    }
};

// Rows that stay where they are written.
struct PlainRows {
    const PlanarImageView& destination;

    std::uint8_t* row(int plane, std::ptrdiff_t y) const noexcept {
        return destination.row(plane, static_cast<std::int32_t>(y));
    }
    void finish(int /*plane*/, std::ptrdiff_t /*begin*/, std::ptrdiff_t /*end*/) const noexcept {}
};

// Rows that become float32 and leave their memory to the next ones.
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

// The resize of one plane, pass by pass.
template <typename Workspace, typename Output>
struct PlaneResize {
    static constexpr std::size_t kStrips = Workspace::kStrips;

    const StripImageView& source;
    const ResizeJob& job;
    const Workspace& workspace;
    const Output& output;
    StripRange range;
    std::ptrdiff_t first_row;  // of the first needed strip, in rows of the window
    int plane;

    // Needed strip `index`, from the window's first column on.
    const std::uint8_t* strip(std::size_t index) const noexcept {
        return source.planes[plane] + (range.first_strip + index) * source.strip_stride_bytes +
               kStripRows * static_cast<std::size_t>(source.left);
    }

    // The same, copied to workspace.strips[slot] if it has fewer columns than the taps read.
    const std::uint8_t* wide_strip(std::size_t index, std::size_t slot) const noexcept {
        const auto columns = static_cast<std::size_t>(source.width);
        const std::size_t needed = workspace.horizontal.columns();
        if (columns >= needed) return strip(index);
        std::memcpy(workspace.strips[slot], strip(index), kStripRows * columns);
        std::memset(workspace.strips[slot] + kStripRows * columns, 0, kStripRows * (needed - columns));
        return workspace.strips[slot];
    }

    // Calls run(strips, index of the first) for the needed strips, kStrips at a time. After the last one it is
    // repeated.
    template <typename Run>
    void for_each_strips(Run run) const noexcept {
        for (std::size_t i = 0; i < range.strip_count; i += kStrips) {
            const std::uint8_t* strips[kStrips] = {wide_strip(i, 0)};
            for (std::size_t n = 1; n < kStrips; ++n) {
                strips[n] = i + n < range.strip_count ? wide_strip(i + n, n) : strips[0];
            }
            run(strips, i);
        }
    }

    // Filters strips horizontally to the rows of the result from `first` on; rows outside of the result are dropped.
    void finish_strips(const std::uint8_t* const* strips, std::ptrdiff_t first) const noexcept {
        constexpr std::size_t kRows = kStrips * kStripRows;
        const std::ptrdiff_t begin = std::max<std::ptrdiff_t>(first, 0);
        const std::ptrdiff_t end = std::min<std::ptrdiff_t>(first + static_cast<std::ptrdiff_t>(kRows), job.height);
        typename Workspace::Rows rows;
        for (std::size_t r = 0; r < kRows; ++r) {
            const std::ptrdiff_t y = first + static_cast<std::ptrdiff_t>(r);
            rows.rows[r] = y >= begin && y < end ? output.row(plane, y) : workspace.unused_row;
        }
        workspace.filter_strips(strips, static_cast<std::size_t>(job.width), rows);
        output.finish(plane, begin, end);
    }

    void filter_horizontally() const noexcept {
        for_each_strips([&](const std::uint8_t* const* strips, std::size_t i) noexcept {
            finish_strips(strips, first_row + static_cast<std::ptrdiff_t>(kStripRows * i));
        });
    }

    void fill_middle() const noexcept {
        if (job.horizontal != nullptr && !job.is_vertical_first) {
            return for_each_strips([&](const std::uint8_t* const* strips, std::size_t i) noexcept {
                workspace.filter_to_middle(strips, i, static_cast<std::size_t>(job.width));
            });
        }
        for (std::size_t i = 0; i < range.strip_count; ++i) {
            workspace.copy_to_middle(strip(i), i, static_cast<std::size_t>(source.width));
        }
    }

    void filter_vertically() const noexcept {
        for (std::int32_t y = 0; y < job.height; ++y) {
            workspace.filter_row(first_row, static_cast<std::size_t>(y), static_cast<std::size_t>(job.width),
                                 output.row(plane, y));
            output.finish(plane, y, y + 1);
        }
    }

    void filter_vertically_then_horizontally() const noexcept {
        for (std::size_t y = 0; y < static_cast<std::size_t>(job.height); y += kStrips * kStripRows) {
            workspace.filter_to_strips(first_row, y, static_cast<std::size_t>(source.width));
            finish_strips(workspace.strips, static_cast<std::ptrdiff_t>(y));
        }
    }

    void run() const noexcept {
        if (job.vertical == nullptr) return filter_horizontally();
        fill_middle();
        if (runs_vertical_first(job)) return filter_vertically_then_horizontally();
        filter_vertically();
    }
};

template <typename Workspace, typename Output>
void resize_planes(const StripImageView& source, const ResizeJob& job, const Workspace& workspace,
                   const Output& output) noexcept {
    const StripRange range = needed_strips(source, job);
    const std::ptrdiff_t first_row = static_cast<std::ptrdiff_t>(range.first_strip * kStripRows) - source.top;
    for (int plane = 0; plane < 3; ++plane) {
        PlaneResize<Workspace, Output>{source, job, workspace, output, range, first_row, plane}.run();
    }
}

// A whole resize that ends in planes of float32, without the fence.
template <typename Workspace, typename ChannelWriter>
void resize_to_floats(const StripImageView& source, const ResizeJob& job, std::uint8_t* scratch,
                      const ConvertJob& convert, void* destination) noexcept {
    convert_padding_scalar({job.width, job.height}, convert, destination);
    const auto workspace = prepare_workspace<Workspace>(source, job, scratch);
    const FloatRows<ChannelWriter> rows(job, convert, destination, workspace.finished_rows);
    resize_planes(source, job, workspace, rows);
}

}  // namespace fastload

#include <cstring>

#include "kernels/resize_convert.h"
#include "kernels/resize_frame.h"
#include "kernels/transpose.h"

namespace fastload {
namespace {

constexpr std::int32_t kRoundingHalf = 1 << (kTapPrecisionBits - 1);
constexpr std::size_t kBlockColumns = 32;  // eight 128-bit registers of sums in the vertical pass
static_assert(kResizeRowAlignment % kBlockColumns == 0, "a padded row must be whole blocks");

// Sums become bytes in a separate loop: the compiler turns it into packs, but not if it is part of the filter.
template <std::size_t kCount>
inline void clip_to_bytes(const std::int32_t (&sums)[kCount], std::uint8_t* bytes) noexcept {
    for (std::size_t i = 0; i < kCount; ++i) {
        std::int32_t value = sums[i] >> kTapPrecisionBits;
        value = value < 0 ? 0 : value;
        bytes[i] = static_cast<std::uint8_t>(value > 255 ? 255 : value);
    }
}

// One output column of a strip: eight rows at once.
inline void filter_column(const std::uint8_t* columns, const std::int32_t* coefficients, std::int32_t count,
                          std::int32_t* output) noexcept {
    std::int32_t sums[kStripRows];
    for (std::int32_t& sum : sums) sum = kRoundingHalf;
    for (std::int32_t t = 0; t < count; ++t) {
        for (std::size_t r = 0; r < kStripRows; ++r) sums[r] += columns[r] * coefficients[t];
        columns += kStripRows;
    }
    std::memcpy(output, sums, sizeof sums);
}

// Turns a strip into 8 rows of the new width. `strip` is the first column of the window.
void filter_strip(const std::uint8_t* strip, const AxisTaps& taps, std::int32_t width, std::uint8_t* rows,
                  std::size_t row_stride_bytes) noexcept {
    std::int32_t sums[64] = {};
    std::uint8_t columns[64];
    for (std::int32_t x = 0; x < width; x += 8) {
        const std::int32_t end = width - x < 8 ? width - x : 8;
        for (std::int32_t i = 0; i < end; ++i) {
            const auto output = static_cast<std::size_t>(x + i);
            filter_column(strip + kStripRows * static_cast<std::size_t>(taps.first[output]),
                          taps.coefficients + output * static_cast<std::size_t>(taps.stride), taps.count[output],
                          sums + kStripRows * static_cast<std::size_t>(i));
        }
        clip_to_bytes(sums, columns);
        transpose_columns_to_rows(columns, rows + x, row_stride_bytes);
    }
}

// Turns a strip into 8 rows of the same width, without reading columns after the window.
void strip_to_rows(const std::uint8_t* strip, std::int32_t width, std::uint8_t* rows,
                   std::size_t row_stride_bytes) noexcept {
    std::int32_t x = 0;
    for (; x + 8 <= width; x += 8) {
        transpose_columns_to_rows(strip + kStripRows * static_cast<std::size_t>(x), rows + x, row_stride_bytes);
    }
    if (x == width) return;
    std::uint8_t last[64] = {};
    std::memcpy(last, strip + kStripRows * static_cast<std::size_t>(x),
                kStripRows * static_cast<std::size_t>(width - x));
    transpose_columns_to_rows(last, rows + x, row_stride_bytes);
}

// Makes one output row, all padded columns. `rows` is the first row it reads.
void filter_row(const std::uint8_t* rows, std::size_t row_stride_bytes, const std::int32_t* coefficients,
                std::int32_t count, std::size_t columns, std::uint8_t* output) noexcept {
    for (std::size_t x = 0; x < columns; x += kBlockColumns) {
        std::int32_t sums[kBlockColumns];
        for (std::int32_t& sum : sums) sum = kRoundingHalf;
        const std::uint8_t* row = rows + x;
        for (std::int32_t t = 0; t < count; ++t) {
            for (std::size_t i = 0; i < kBlockColumns; ++i) sums[i] += row[i] * coefficients[t];
            row += row_stride_bytes;
        }
        clip_to_bytes(sums, output + x);
    }
}

// The rows of one plane between strips and result. It holds only rows that some output needs.
struct MiddleRows {
    std::uint8_t* data;
    std::size_t stride_bytes;
    std::ptrdiff_t first_row;  // the window's row that `data` starts with; negative where a strip begins above it

    const std::uint8_t* row(std::int32_t y) const noexcept {
        return data + static_cast<std::size_t>(y - first_row) * stride_bytes;
    }
};

void filter_row(const MiddleRows& rows, const AxisTaps& taps, std::int32_t y, std::uint8_t* output) noexcept {
    const auto index = static_cast<std::size_t>(y);
    filter_row(rows.row(taps.first[index]), rows.stride_bytes,
               taps.coefficients + index * static_cast<std::size_t>(taps.stride), taps.count[index], rows.stride_bytes,
               output);
}

// Turns strips into rows, and filters them horizontally if the job says so.
void fill_rows(const StripImageView& source, int plane, const StripRange& range, const AxisTaps* taps,
               std::int32_t width, const MiddleRows& rows) noexcept {
    const std::uint8_t* strip = source.planes[plane] + range.first_strip * source.strip_stride_bytes +
                                kStripRows * static_cast<std::size_t>(source.left);
    for (std::size_t i = 0; i < range.strip_count; ++i) {
        std::uint8_t* output = rows.data + i * kStripRows * rows.stride_bytes;
        if (taps != nullptr) {
            filter_strip(strip, *taps, width, output, rows.stride_bytes);
        } else {
            strip_to_rows(strip, width, output, rows.stride_bytes);
        }
        strip += source.strip_stride_bytes;
    }
}

void finish_rows(const MiddleRows& rows, const ResizeJob& job, std::uint8_t* output,
                 std::size_t output_stride_bytes) noexcept {
    for (std::int32_t y = 0; y < job.height; ++y) {
        if (job.vertical != nullptr) {
            filter_row(rows, *job.vertical, y, output);
        } else {
            std::memcpy(output, rows.row(y), static_cast<std::size_t>(job.width));
        }
        output += output_stride_bytes;
    }
}

// Filters vertically, then horizontally: eight result rows at a time become a strip for the horizontal filter.
void finish_vertical_first(const MiddleRows& rows, const ResizeJob& job, std::uint8_t* scratch, std::uint8_t* output,
                           std::size_t output_stride_bytes) noexcept {
    const std::size_t stride = rows.stride_bytes;
    std::uint8_t* group = scratch;
    std::uint8_t* strip = group + kStripRows * stride;
    std::uint8_t* finished = strip + kStripRows * stride;
    const std::size_t finished_stride = padded_width(job.width);
    for (std::int32_t y = 0; y < job.height; y += 8) {
        const std::int32_t count = job.height - y < 8 ? job.height - y : 8;
        for (std::int32_t r = 0; r < count; ++r) {
            filter_row(rows, *job.vertical, y + r, group + static_cast<std::size_t>(r) * stride);
        }
        for (std::size_t x = 0; x < stride; x += 8) {
            transpose_rows_to_columns(group + x, stride, strip + kStripRows * x);
        }
        filter_strip(strip, *job.horizontal, job.width, finished, finished_stride);
        for (std::int32_t r = 0; r < count; ++r) {
            std::memcpy(output, finished + static_cast<std::size_t>(r) * finished_stride,
                        static_cast<std::size_t>(job.width));
            output += output_stride_bytes;
        }
    }
}

}  // namespace

bool resize_scratch_bytes_scalar(ImageSize source, const ResizeJob& job, std::size_t* scratch_bytes) noexcept {
    const bool is_vertical_first = runs_vertical_first(job);
    const std::int32_t width = is_vertical_first ? source.width : job.width;
    std::size_t rows = most_strips(source.height) * kStripRows;
    if (is_vertical_first) rows += 2 * kStripRows;
    if (!checked_multiply(rows, padded_width(width), scratch_bytes)) return false;
    if (!is_vertical_first) return true;
    return checked_add(*scratch_bytes, kStripRows * padded_width(job.width), scratch_bytes);
}

void resize_scalar(const StripImageView& source, const ResizeJob& job, std::uint8_t* scratch,
                   const PlanarImageView& destination) noexcept {
    const StripRange range = needed_strips(source, job);
    const bool is_vertical_first = runs_vertical_first(job);
    const AxisTaps* first_pass = is_vertical_first ? nullptr : job.horizontal;
    const std::int32_t width = is_vertical_first ? source.width : job.width;
    const MiddleRows rows = {scratch, padded_width(width),
                             static_cast<std::ptrdiff_t>(range.first_strip * kStripRows) - source.top};
    std::uint8_t* rest = scratch + range.strip_count * kStripRows * rows.stride_bytes;
    for (int plane = 0; plane < 3; ++plane) {
        fill_rows(source, plane, range, first_pass, width, rows);
        std::uint8_t* output = destination.planes[plane];
        if (is_vertical_first) {
            finish_vertical_first(rows, job, rest, output, destination.row_stride_bytes);
        } else {
            finish_rows(rows, job, output, destination.row_stride_bytes);
        }
    }
}

bool resize_convert_scalar(const StripImageView& /*source*/, const ResizeJob& /*job*/, std::uint8_t* /*scratch*/,
                           const ConvertJob& /*convert*/, void* /*destination*/) noexcept {
    return false;
}

}  // namespace fastload

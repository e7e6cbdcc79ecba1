#include <algorithm>
#include <cstring>

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

// The taps as they are.
struct Taps : AxisTaps {
    std::size_t columns() const noexcept { return 0; }
    void take(const AxisTaps&, std::int32_t, ScratchCutter*) noexcept {}
};

void pack_taps(const AxisTaps& taps, std::int32_t, std::int32_t, Taps* packed) noexcept { *packed = {taps}; }

// Turns a strip into 8 rows of the new width. `strip` is the first column of the window.
void filter_strip(const std::uint8_t* strip, const Taps& taps, std::size_t width, const StripRows& output) noexcept {
    std::int32_t sums[64] = {};
    std::uint8_t columns[64];
    for (std::size_t x = 0; x < width; x += 8) {
        const std::size_t end = width - x < 8 ? width - x : 8;
        for (std::size_t i = 0; i < end; ++i) {
            filter_column(strip + kStripRows * static_cast<std::size_t>(taps.first[x + i]),
                          taps.coefficients + (x + i) * static_cast<std::size_t>(taps.stride), taps.count[x + i],
                          sums + kStripRows * i);
        }
        clip_to_bytes(sums, columns);
        std::uint64_t words[kStripRows];
        std::memcpy(words, columns, sizeof words);
        transpose_8x8(words);
        for (std::size_t r = 0; r < kStripRows; ++r) std::memcpy(output.rows[r] + x, &words[r], 8);
    }
}

// Makes one output row, in blocks of columns. `rows` is the first row it reads.
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

// All that lies in the scratch memory, and the passes over it: see resize_frame.h.
struct Workspace : RowsWorkspace<Taps> {
    std::size_t last_row;  // of the result

    Workspace(ImageSize source, const ResizeJob& job, ScratchCutter* scratch) noexcept
        : RowsWorkspace(source, job, scratch), last_row(static_cast<std::size_t>(job.height) - 1) {}

    void copy_to_middle(const std::uint8_t* from, std::size_t index, std::size_t width) const noexcept {
        strip_to_rows(from, width, middle_row(kStripRows * index), middle_width);
    }

    void filter_row(std::ptrdiff_t first_row, std::size_t y, std::size_t width, std::uint8_t* output) const noexcept {
        fastload::filter_row(rows_of(y, first_row), middle_width,
                             vertical.coefficients + y * static_cast<std::size_t>(vertical.stride), vertical.count[y],
                             width, output);
    }

    void filter_to_strips(std::ptrdiff_t first_row, std::size_t y, std::size_t width) const noexcept {
        for (std::size_t r = 0; r < kStripRows; ++r) {
            filter_row(first_row, std::min(y + r, last_row), width, eight_rows + r * middle_width);
        }
        for (std::size_t x = 0; x < width; x += 8) {
            transpose_rows_to_columns(eight_rows + x, middle_width, strips[0] + kStripRows * x);
        }
    }
};

}  // namespace

bool resize_scratch_bytes_scalar(ImageSize source, const ResizeJob& job, std::size_t* scratch_bytes) noexcept {
    return scratch_bytes_of<Workspace>(source, job, scratch_bytes);
}

void resize_scalar(const StripImageView& source, const ResizeJob& job, std::uint8_t* scratch,
                   const PlanarImageView& destination) noexcept {
    resize_planes(source, job, prepare_workspace<Workspace>(source, job, scratch), PlainRows{destination});
}

bool resize_convert_scalar(const StripImageView& /*source*/, const ResizeJob& /*job*/, std::uint8_t* /*scratch*/,
                           const ConvertJob& /*convert*/, void* /*destination*/) noexcept {
    return false;
}

}  // namespace fastload

// Separable resampling of whole planes in 22-bit fixed point, alone or together with the last write.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/image_view.h"
#include "kernels/convert.h"

namespace fastload {

constexpr int kTapPrecisionBits = 22;

// Rows of a resize destination and of every intermediate are at least this far apart, and start on this alignment, so
// that kernels handle whole blocks of columns. The bytes after the last column receive arbitrary values.
constexpr std::size_t kResizeRowAlignment = 64;

// The weights of one axis. Output i is round(sum over t < count[i] of coefficients[i * stride + t] *
// input[first[i] + t]), clipped to 0..255; coefficients are scaled by 2^22 and the sum is rounded half up by adding
// 2^21 before the shift. `first` does not decrease, and neither does first + count; every tap lies inside the input.
// Sums stay inside int32: the weights of an output add up to about 1 and their absolute values to less than 2.
struct AxisTaps {
    const std::int32_t* first = nullptr;
    const std::int32_t* count = nullptr;
    const std::int32_t* coefficients = nullptr;
    std::int32_t stride = 0;
};

// Between the two passes values are rounded and clipped to uint8, so their order changes results.
struct ResizeJob {
    const AxisTaps* horizontal = nullptr;  // null: the width stays
    const AxisTaps* vertical = nullptr;    // null: the height stays
    std::int32_t width = 0;                // of the result
    std::int32_t height = 0;
    bool is_vertical_first = false;  // only read if there are both passes
};

// The bytes of scratch that the kernel needs to resize a window of `source` size by `job`; false if that overflows.
using ResizeScratchFunction = bool(ImageSize source, const ResizeJob& job, std::size_t* scratch_bytes) noexcept;

// Resizes the window of `source` into the rows of `destination` (job.width x job.height, stride as above). `scratch` is
// 64-byte aligned and at least as large as the function above says; its layout is the kernel's own. Reads whole strips
// of 8 rows where the window touches them, but no column outside of it.
using ResizeFunction = void(const StripImageView& source, const ResizeJob& job, std::uint8_t* scratch,
                            const PlanarImageView& destination) noexcept;

ResizeScratchFunction resize_scratch_bytes_scalar, resize_scratch_bytes_avx2, resize_scratch_bytes_avx512;
ResizeFunction resize_scalar, resize_avx2, resize_avx512;

// Does what `resize` and then `convert_rows` of its result do, with the scratch memory of that resize. Each row becomes
// elements as soon as it is made. These go past the caches to memory, which takes them while the next row is computed:
// for results that would leave the caches before they are read. Returns false, with nothing written, if this is not
// better than the two calls: vector kernels do it for planes of float32 with a formula whose rows are whole cache
// lines.
using ResizeConvertFunction = bool(const StripImageView& source, const ResizeJob& job, std::uint8_t* scratch,
                                   const ConvertJob& convert, void* destination) noexcept;

ResizeConvertFunction resize_convert_scalar;  // always false
ResizeConvertFunction resize_convert_avx2, resize_convert_avx512;

}  // namespace fastload

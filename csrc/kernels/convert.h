// The last write: planar uint8 pixels to the elements of the user's tensor, in one pass over the output.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/image_view.h"

namespace fastload {

// The formula for the float32 entries of one channel's table: (value / 255 - mean) / std, as torchvision's ToTensor and
// Normalize compute it, with three roundings. Note [fractions of 255]: a byte repeated three times is value / 255 *
// (2^24 - 1), so value / 255 in units of 2^-24 is `repeated` plus its 2^24th part, plus the 2^24th part of that, which
// is too small to change how the sum is rounded. A reciprocal is a float32 and the remainder that it leaves out; two
// multiplications by them make a quotient that is nearly always the rounded one. The code that fills this in has to
// check that it always is, by comparing all 256 entries. All three numbers are so far from the ends of float32 that
// another unit changes only their exponents: means are below kLargest, and `std` is between 1 / kLargest and kLargest.
struct Normalization {
    float mean = 0.0F;          // in units of 2^-24
    float inverse_std = kUnit;  // multiplier for a number in these units
    float inverse_std_rest = 0.0F;

    static constexpr float kUnit = 1.0F / (1 << 24);
    static constexpr float kLargest = 1e6F;
    static constexpr std::int32_t kRepeat = 0x010101;

    // The order of operations of every kernel. Fused operations round once on every processor.
    float apply(std::uint8_t value) const noexcept {
        const auto repeated = static_cast<float>(kRepeat * value);
        const float centered = std::fma(repeated, kUnit, repeated) - mean;
        return std::fma(centered, inverse_std, centered * inverse_std_rest);
    }
};

// The frame of the last write, and its form. The window of the source lands with its top left corner at (left, top) of
// a width x height result and lies inside it. The rest of the result is padding, with the table's entry of 0.
struct ConvertJob {
    std::int32_t width = 0;  // of the result
    std::int32_t height = 0;
    std::int32_t left = 0;
    std::int32_t top = 0;
    bool is_mirrored = false;  // swaps left and right of the window; (left, top) is where the mirrored window lands
    bool is_channels_last = false;  // pixel after pixel (HWC in memory) instead of plane after plane (CHW)
    int element_size_bytes = 1;     // 1, 2, 4 or 8
    // [3][256] elements: the element for each pixel value of a channel. Null: the value itself; element_size_bytes is
    // 1.
    const void* table = nullptr;
    // Null, or for each of the three channels a formula that gives exactly the bits of the table, which is then one of
    // float32. Kernels that compute faster than they look up use it.
    const Normalization* normalizations = nullptr;
};

// `destination` holds 3 * width * height elements without gaps and is aligned to the element size. An empty window
// (width or height 0) writes only padding. Elements are opaque bits to the kernel.
using ConvertRowsFunction = void(const PlanarImageView& source, const ConvertJob& job, void* destination) noexcept;
using ConvertStripsFunction = void(const StripImageView& source, const ConvertJob& job, void* destination) noexcept;

// Writes only the padding around a window of that size. Every variant uses this function for it.
void convert_padding_scalar(ImageSize window, const ConvertJob& job, void* destination) noexcept;

ConvertRowsFunction convert_rows_scalar, convert_rows_avx2, convert_rows_avx512;
ConvertStripsFunction convert_strips_scalar, convert_strips_avx2, convert_strips_avx512;

}  // namespace fastload

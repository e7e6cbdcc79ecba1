// The last write: planar uint8 pixels to the elements of the user's tensor, in one pass over the output.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/image_view.h"

namespace fastload {

// How the float32 entries of one channel's table come about: (value / 255 - mean) / std, as torchvision's ToTensor and
// Normalize compute it, with three roundings. Note [fractions of 255]: a byte that is repeated three times is value /
// 255 * (2^24 - 1), so that value / 255 in units of 2^-24 is `repeated` and its 2^24th part, and the 2^24th part of
// that, which is too little to change how the sum is rounded. A reciprocal is a float32 and the rest that it leaves
// out, which makes a quotient by two multiplications that is nearly always the rounded one: whether it always is, is
// for whoever fills this in to find out, by comparing all 256 entries. All three are so far from the ends of float32
// that another unit changes nothing but their exponents: means below kLargest, and `std` between 1 / kLargest and
// kLargest.
struct Normalization {
    float mean = 0.0F;          // in units of 2^-24
    float inverse_std = kUnit;  // by which a number in these units is multiplied
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

// What is written around, and how. The window of the source lands with its top left corner at (left, top) of a
// width x height result and lies inside it; the rest of the result is padding, whose value is the table's entry of 0.
struct ConvertJob {
    std::int32_t width = 0;  // of the result
    std::int32_t height = 0;
    std::int32_t left = 0;
    std::int32_t top = 0;
    bool is_mirrored = false;  // left and right of the window swapped; (left, top) is where the result of that lands
    bool is_channels_last = false;  // pixel after pixel (HWC in memory) instead of plane after plane (CHW)
    int element_size_bytes = 1;     // 1, 2, 4 or 8
    // [3][256] elements: what a pixel value of a channel becomes. Null: the value itself, element_size_bytes is 1.
    const void* table = nullptr;
    // Null, or for each of the three channels what gives exactly the bits of the table, which is then one of float32. A
    // kernel that looks nothing up faster than it computes takes this way.
    const Normalization* normalizations = nullptr;
};

// `destination` holds 3 * width * height elements without gaps and is aligned to the element size. An empty window
// (width or height 0) writes padding only. Elements are opaque bits to the kernel.
using ConvertRowsFunction = void (*)(const PlanarImageView& source, const ConvertJob& job, void* destination) noexcept;
using ConvertStripsFunction = void (*)(const StripImageView& source, const ConvertJob& job, void* destination) noexcept;

void convert_rows_scalar(const PlanarImageView& source, const ConvertJob& job, void* destination) noexcept;
void convert_strips_scalar(const StripImageView& source, const ConvertJob& job, void* destination) noexcept;

// Only what lies around a window of that size: a part of the last write that every variant takes from here.
void convert_padding_scalar(ImageSize window, const ConvertJob& job, void* destination) noexcept;

void convert_rows_avx2(const PlanarImageView& source, const ConvertJob& job, void* destination) noexcept;
void convert_strips_avx2(const StripImageView& source, const ConvertJob& job, void* destination) noexcept;

void convert_rows_avx512(const PlanarImageView& source, const ConvertJob& job, void* destination) noexcept;
void convert_strips_avx512(const StripImageView& source, const ConvertJob& job, void* destination) noexcept;

}  // namespace fastload

// The last write: planar uint8 pixels to the elements of the user's tensor, in one pass over the output.
#pragma once

#include <cstdint>

#include "base/image_view.h"

namespace fastload {

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
};

// `destination` holds 3 * width * height elements without gaps and is aligned to the element size. An empty window
// (width or height 0) writes padding only. Elements are opaque bits to the kernel.
using ConvertRowsFunction = void (*)(const PlanarImageView& source, const ConvertJob& job, void* destination) noexcept;
using ConvertStripsFunction = void (*)(const StripImageView& source, const ConvertJob& job, void* destination) noexcept;

void convert_rows_scalar(const PlanarImageView& source, const ConvertJob& job, void* destination) noexcept;
void convert_strips_scalar(const StripImageView& source, const ConvertJob& job, void* destination) noexcept;

// Only what lies around a window of that size: a part of the last write that every variant takes from here.
void convert_padding_scalar(ImageSize window, const ConvertJob& job, void* destination) noexcept;

void convert_rows_avx512vnni(const PlanarImageView& source, const ConvertJob& job, void* destination) noexcept;
void convert_strips_avx512vnni(const StripImageView& source, const ConvertJob& job, void* destination) noexcept;

}  // namespace fastload

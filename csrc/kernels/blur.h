// Convolution of a plane of pixels with float32 weights, in the order in which torch adds.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fastload {

// Rows of `padded` have this many more columns than a kernel reads, because blocks of columns end after the image. Rows
// of `destination` are a multiple of this apart; the bytes after the last column receive arbitrary values.
constexpr std::size_t kBlurColumnAlignment = 16;

// Pixel (x, y) of the result is the sum over rows i, then columns j, of weights[i * kernel_width + j] *
// padded[(y + i) * padded_stride + x + j]: it begins with 0, each product is added in one rounding (a fused
// multiply-add), and the sum is rounded to an integer, half to even. Weights are not negative and add up to about 1,
// padded values are 0..255.
struct BlurJob {
    const float* padded = nullptr;  // height + kernel_height - 1 rows; values after their last column are finite, too
    std::size_t padded_stride = 0;  // in floats; at least width, rounded up as above, + kernel_width - 1
    const float* weights = nullptr;
    std::int32_t kernel_width = 0;
    std::int32_t kernel_height = 0;
    std::int32_t width = 0;  // of the result
    std::int32_t height = 0;
    std::uint8_t* destination = nullptr;
    std::size_t destination_stride_bytes = 0;
    // If not null, receives the sums before rounding, in rows like the destination's, which is then not written.
    float* sums = nullptr;
    std::size_t sums_stride = 0;  // in floats
};

using BlurFunction = void(const BlurJob& job) noexcept;

BlurFunction blur_scalar, blur_avx2;

}  // namespace fastload

// YCbCr to RGB as JFIF defines it, in libjpeg's fixed point.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fastload {

// Replaces `count` samples of three planes in place: Y, Cb, Cr become R, G, B. Elementwise, so the order of the samples
// does not matter; `count` is a multiple of 8 and the pointers are 8-byte aligned.
//
// R = Y + 1.40200 Cr, G = Y - 0.34414 Cb - 0.71414 Cr, B = Y + 1.77200 Cb with Cb and Cr moved by -128, constants
// rounded to 16 fractional bits, each sum rounded once (half up) and saturated.
using YccToRgbFunction = void(std::uint8_t* y_to_r, std::uint8_t* cb_to_g, std::uint8_t* cr_to_b,
                              std::size_t count) noexcept;

YccToRgbFunction ycc_to_rgb_scalar, ycc_to_rgb_avx2;

}  // namespace fastload

// Pixels that Python hands in.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>

#include "base/checked_math.h"
#include "base/image_view.h"

namespace fastload {

// A view of `pixels`, height * width * 3 bytes of interleaved RGB; it lasts as long as the buffer. Throws
// pybind11::value_error where the buffer is not that.
inline PackedImageView view_packed(const pybind11::buffer& pixels, std::int32_t width, std::int32_t height) {
    const pybind11::buffer_info info = pixels.request();
    std::size_t expected = 0;
    if (width <= 0 || height <= 0 ||
        !checked_multiply(static_cast<std::size_t>(width) * 3, static_cast<std::size_t>(height), &expected) ||
        static_cast<std::size_t>(info.size * info.itemsize) != expected ||
        PyBuffer_IsContiguous(info.view(), 'C') == 0) {
        throw pybind11::value_error("pixels must hold width * height * 3 bytes, one after the other");
    }
    return {static_cast<const std::uint8_t*>(info.ptr), static_cast<std::size_t>(width) * 3, width, height};
}

}  // namespace fastload

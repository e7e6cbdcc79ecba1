// Arguments of one conversion on a device.
#pragma once

#include <cstdint>

namespace fastload {

// All pointers are device pointers.
struct BatchConversion {
    const std::uint8_t* pixels = nullptr;  // [images, pixels_per_image, 3]
    const void* table = nullptr;  // 3 x 256 elements: element 256 * c + v is the result for value v of channel c
    void* out = nullptr;          // [images, 3, pixels_per_image], or [images, pixels_per_image, 3] if channels_last
    std::uint64_t images = 0;
    std::uint64_t pixels_per_image = 0;
    int element_size_bytes = 1;  // 1, 2, 4 or 8
    bool channels_last = false;
};

}  // namespace fastload

// Conversion on the device: uint8 pixels become the user's elements in the user's layout, by table.
#pragma once

#include <cstdint>

#include "device/backend.h"

namespace fastload {

// The pointers are the device's.
struct BatchConversion {
    const std::uint8_t* pixels = nullptr;  // [images, pixels_per_image, 3]
    const void* table = nullptr;           // 3 x 256 elements: value v of channel c becomes element 256 * c + v
    void* out = nullptr;  // [images, 3, pixels_per_image], or [images, pixels_per_image, 3] where channels_last
    std::uint64_t images = 0;
    std::uint64_t pixels_per_image = 0;
    int element_size_bytes = 1;  // 1, 2, 4 or 8
    bool channels_last = false;
};

// Of the toolkit: 1000 * major + 10 * minor.
int convert_kernels_cuda_version() noexcept;

// Makes the kernels ready on a device, or says why they cannot run there: built for other GPUs, the driver is too old.
// Cheap when repeated. This module's runtime, not torch's, is at that device afterwards.
DeviceStatus load_convert_kernels(int device) noexcept;

// Queues the conversion on a stream of the device and returns. The device is the calling thread's. No memory of the
// conversion may be reused before the stream is through.
DeviceStatus launch_convert(const BatchConversion& batch, int device, StreamId stream) noexcept;

}  // namespace fastload

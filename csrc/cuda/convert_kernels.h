// Conversion on the device: uint8 pixels become the user's elements in the user's layout, by table.
#pragma once

#include "cuda/convert_loop.h"
#include "device/backend.h"

namespace fastload {

// The toolkit's version: 1000 * major + 10 * minor.
int convert_kernels_cuda_version() noexcept;

// Makes the kernels ready on a device, or says why they cannot run there: built for other GPUs, or the driver is too
// old. Cheap when repeated. Afterwards the device is current in this module's runtime, not in torch's.
DeviceStatus load_convert_kernels(int device) noexcept;

// Queues the conversion on a stream of the device and returns. The device must be the calling thread's current one. No
// memory of the conversion may be reused before the stream has finished it.
DeviceStatus launch_convert(const BatchConversion& batch, int device, StreamId stream) noexcept;

}  // namespace fastload

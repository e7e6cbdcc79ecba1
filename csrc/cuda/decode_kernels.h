// Decoding on the device: samples in scan form become pixels.
#pragma once

#include "device/backend.h"
#include "device/decode_batch.h"

namespace fastload {

// Makes the kernels ready on a device, or says why they cannot run there. Cheap when repeated.
DeviceStatus load_decode_kernels(int device) noexcept;

// Queues all of a batch on a stream of the device and returns. The device must be the calling thread's current one.
// `host_wire` is not read any more; no other memory of the batch may be reused before the stream has finished it.
DeviceStatus launch_decode(const DecodeBatch& batch, int device, StreamId stream) noexcept;

}  // namespace fastload

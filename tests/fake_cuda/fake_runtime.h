// Controls of the fake runtime itself, for tests; fake_gpu.h has its GPUs.
#pragma once

#include <string>

namespace fake_cuda {

// The results of cudaRuntimeGetVersion and cudaDriverGetVersion, 12040 and 99000 unless set.
void set_versions(int runtime, int driver);

// Makes the calling thread one that has called nothing yet and is at GPU `device`.
void reset_thread(int device);
// The calls of the calling thread since the last time, with their numbers: "cudaGetDevice() cudaSetDevice(1)". They are
// kept from the first time until the thread is reset.
std::string take_log();

}  // namespace fake_cuda

// Asks the driver whether a thread has chosen the device.
extern "C" int cuDevicePrimaryCtxGetState(int device, unsigned int* flags, int* is_active);

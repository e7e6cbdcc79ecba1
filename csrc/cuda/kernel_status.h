// Results of the CUDA runtime that the kernels' module has linked in.
#pragma once

#include <cuda_runtime_api.h>

#include "device/backend.h"

namespace fastload {

// The runtime also keeps the error for the next call that asks; this takes it from there.
inline DeviceStatus kernel_status(cudaError_t error, const char* call) noexcept {
    if (error == cudaSuccess) return {};
    static_cast<void>(cudaGetLastError());
    return {static_cast<int>(error), cudaGetErrorName(error), cudaGetErrorString(error), call};
}

// This runtime has its own current device for each thread; torch's runtime does not set it.
inline DeviceStatus set_kernel_device(int device) noexcept {
    return kernel_status(cudaSetDevice(device), "cudaSetDevice");
}

// Makes a kernel ready: one that is loaded at its first launch may make the launch wait for the device.
template <typename Kernel>
DeviceStatus load_kernel(Kernel* kernel) noexcept {
    cudaFuncAttributes attributes;
    return kernel_status(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
}

}  // namespace fastload

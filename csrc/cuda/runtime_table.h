// The functions of the CUDA runtime that torch has loaded. Uses no CUDA header and links nothing: the types are written
// here as in CUDA 12 and 13.
#pragma once

#include <cstddef>
#include <string>

namespace fastload {

// Results are cudaError_t, 0 is success; streams and events are opaque pointers.
struct CudaRuntime {
    int (*runtime_get_version)(int* version) = nullptr;
    int (*driver_get_version)(int* version) = nullptr;
    int (*get_device_count)(int* count) = nullptr;
    int (*get_device)(int* device) = nullptr;
    int (*set_device)(int device) = nullptr;
    int (*thread_exchange_stream_capture_mode)(int* mode) = nullptr;
    int (*event_create_with_flags)(void** event, unsigned int flags) = nullptr;
    int (*event_destroy)(void* event) = nullptr;
    int (*event_record)(void* event, void* stream) = nullptr;
    int (*event_query)(void* event) = nullptr;
    int (*memcpy_async)(void* to, const void* from, std::size_t size_bytes, int kind, void* stream) = nullptr;
    const char* (*get_error_name)(int error) = nullptr;
    const char* (*get_error_string)(int error) = nullptr;
    int (*get_last_error)() = nullptr;

    // The driver's cuDevicePrimaryCtxGetState; null if it was not found.
    int (*primary_context_get_state)(int device, unsigned int* flags, int* is_active) = nullptr;
};

// Values of cudaError_t.
constexpr int kCudaErrorInsufficientDriver = 35;
constexpr int kCudaErrorNoDevice = 100;
constexpr int kCudaErrorNotReady = 600;

// Fills `table` from the runtime of version `major` that the process has loaded. Loads none itself, and keeps that one
// from being unloaded. Returns "", or one sentence that says why there is none to use and what to do next. Calls only
// cudaRuntimeGetVersion.
std::string find_cuda_runtime(int major, CudaRuntime* table);

// Adds the driver's function. The runtime loads the driver at the first call that needs it.
void find_cuda_driver(CudaRuntime* table);

// Returns "" if `device` can be used, otherwise a sentence that says why not. Starts nothing on any device.
std::string check_cuda_device(const CudaRuntime& runtime, int device);

}  // namespace fastload

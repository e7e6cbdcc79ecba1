#include "cuda/cuda_backend.h"

namespace fastload {
namespace {

constexpr int kCaptureModeRelaxed = 2;
constexpr unsigned int kEventDisableTiming = 2;
constexpr int kHostToDevice = 1;

void* pointer_of(std::uintptr_t handle) { return reinterpret_cast<void*>(handle); }

}  // namespace

DeviceStatus CudaBackend::status_of(int error, const char* call) const noexcept {
    if (error == 0) return {};
    static_cast<void>(runtime_.get_last_error());
    return {error, runtime_.get_error_name(error), runtime_.get_error_string(error), call};
}

DeviceStatus CudaBackend::enter_thread(ThreadState* before) noexcept {
    DeviceStatus status = status_of(runtime_.get_device(&before->device), "cudaGetDevice");
    if (!status.is_ok()) return status;
    if (before->device != device_) {
        status = status_of(runtime_.set_device(device_), "cudaSetDevice");
        if (!status.is_ok()) return status;
    }
    before->capture_mode = kCaptureModeRelaxed;
    status = status_of(runtime_.thread_exchange_stream_capture_mode(&before->capture_mode),
                       "cudaThreadExchangeStreamCaptureMode");
    if (!status.is_ok()) restore_device(before->device);
    return status;
}

void CudaBackend::leave_thread(const ThreadState& before) noexcept {
    int mode = before.capture_mode;
    static_cast<void>(status_of(runtime_.thread_exchange_stream_capture_mode(&mode), ""));
    restore_device(before.device);
}

// See Note [current device].
void CudaBackend::restore_device(int device) const noexcept {
    if (device == device_) return;
    unsigned int flags = 0;
    int has_context = 1;
    const bool is_known = runtime_.primary_context_get_state != nullptr &&
                          runtime_.primary_context_get_state(device, &flags, &has_context) == 0;
    if (is_known && has_context == 0) return;
    static_cast<void>(status_of(runtime_.set_device(device), ""));
}

DeviceStatus CudaBackend::create_event(EventId* event) noexcept {
    void* handle = nullptr;
    const int error = runtime_.event_create_with_flags(&handle, kEventDisableTiming);
    if (error == 0) *event = reinterpret_cast<EventId>(handle);
    return status_of(error, "cudaEventCreateWithFlags");
}

void CudaBackend::destroy_event(EventId event) noexcept {
    static_cast<void>(status_of(runtime_.event_destroy(pointer_of(event)), ""));
}

DeviceStatus CudaBackend::copy_to_device(void* to, const void* from, std::size_t size_bytes, StreamId stream) noexcept {
    return status_of(runtime_.memcpy_async(to, from, size_bytes, kHostToDevice, pointer_of(stream)), "cudaMemcpyAsync");
}

DeviceStatus CudaBackend::record_event(EventId event, StreamId stream) noexcept {
    return status_of(runtime_.event_record(pointer_of(event), pointer_of(stream)), "cudaEventRecord");
}

DeviceStatus CudaBackend::query_event(EventId event, bool* is_done) noexcept {
    const int error = runtime_.event_query(pointer_of(event));
    const DeviceStatus status = status_of(error, "cudaEventQuery");  // also takes "not ready" from the last error
    if (error != 0 && error != kCudaErrorNotReady) return status;
    *is_done = error == 0;
    return {};
}

std::shared_ptr<DeviceBackend> open_cuda_backend(int runtime_major, int device, std::string* problem) {
    CudaRuntime runtime;
    *problem = find_cuda_runtime(runtime_major, &runtime);
    if (problem->empty()) *problem = check_cuda_device(runtime, device);
    if (!problem->empty()) return nullptr;
    find_cuda_driver(&runtime);
    return std::make_shared<CudaBackend>(runtime, device);
}

}  // namespace fastload

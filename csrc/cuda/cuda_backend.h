// A device of the CUDA runtime.
#pragma once

#include <memory>
#include <string>

#include "cuda/runtime_table.h"
#include "device/backend.h"

namespace fastload {

// Note [current device]
// Since CUDA 12 cudaSetDevice creates a context on the device, several hundred MB of its memory. A thread that never
// chose a device is at device 0, so restoring that would cost every process that works on another device a context on
// device 0. Leaving therefore restores the thread's device only if it has a context; if not, nothing of the thread's
// can be there yet. The thread then stays at our device, as after torch's own guards.

// Errors that it causes are cleared from the runtime's last error, where other code would attribute them to itself.
class CudaBackend final : public DeviceBackend {
  public:
    CudaBackend(const CudaRuntime& runtime, int device) : runtime_(runtime), device_(device) {}

    DeviceStatus enter_thread(ThreadState* before) noexcept override;
    void leave_thread(const ThreadState& before) noexcept override;
    DeviceStatus create_event(EventId* event) noexcept override;
    void destroy_event(EventId event) noexcept override;
    DeviceStatus copy_to_device(void* to, const void* from, std::size_t size_bytes, StreamId stream) noexcept override;
    DeviceStatus record_event(EventId event, StreamId stream) noexcept override;
    DeviceStatus query_event(EventId event, bool* is_done) noexcept override;

  private:
    DeviceStatus status_of(int error, const char* call) const noexcept;
    void restore_device(int device) const noexcept;

    const CudaRuntime runtime_;
    const int device_;
};

// The device number `device` of the runtime that torch, built for CUDA `runtime_major`, has loaded. Null, with a
// sentence in `problem`, if there is none.
std::shared_ptr<DeviceBackend> open_cuda_backend(int runtime_major, int device, std::string* problem);

}  // namespace fastload

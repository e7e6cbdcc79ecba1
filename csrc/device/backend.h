// Interface of a device: copies in the background, and their completion.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fastload {

// A stream as the outside names it: torch.cuda.Stream.cuda_stream. 0 is the device's default stream.
using StreamId = std::uintptr_t;
// 0 is no event.
using EventId = std::uintptr_t;

// A result of the device's runtime. Static storage only: cheap to copy, safe to keep.
struct [[nodiscard]] DeviceStatus {
    int error = 0;          // the runtime's number; 0 is success
    const char* name = "";  // the runtime's name of the error, "cudaErrorIllegalAddress"
    const char* text = "";  // its sentence
    const char* call = "";  // the function that returned it

    constexpr bool is_ok() const noexcept { return error == 0; }
};

// One device. Thread-safe. Everything but entering is called inside of a DeviceScope of the calling
// thread. The streams are made elsewhere, by torch.
class DeviceBackend {
  public:
    // What a thread had set before.
    struct ThreadState {
        int device = 0;
        int capture_mode = 0;
    };

    DeviceBackend() = default;
    DeviceBackend(const DeviceBackend&) = delete;  // shared by pointer
    DeviceBackend& operator=(const DeviceBackend&) = delete;
    virtual ~DeviceBackend() = default;

    // Makes this device the calling thread's, and lets the thread make calls that would otherwise break the capture of
    // a graph which another thread is at (the relaxed mode).
    virtual DeviceStatus enter_thread(ThreadState* before) noexcept = 0;
    virtual void leave_thread(const ThreadState& before) noexcept = 0;

    // Without timing.
    virtual DeviceStatus create_event(EventId* event) noexcept = 0;
    virtual void destroy_event(EventId event) noexcept = 0;

    // Queues a copy from the host to the device and returns. From pinned memory it is read later, when the stream gets
    // there; from pageable memory it may have been read on return, or not.
    virtual DeviceStatus copy_to_device(void* to, const void* from, std::size_t size_bytes,
                                        StreamId stream) noexcept = 0;

    // The event is done when all is done that was queued on the stream before. Recording again forgets the time before.
    virtual DeviceStatus record_event(EventId event, StreamId stream) noexcept = 0;
    // An event never recorded is done. An error may be that of any earlier work on the device.
    virtual DeviceStatus query_event(EventId event, bool* is_done) noexcept = 0;
};

// The calling thread is at the device for the length of a scope.
class DeviceScope {
  public:
    explicit DeviceScope(DeviceBackend& backend) noexcept
        : backend_(backend), status_(backend.enter_thread(&before_)) {}
    ~DeviceScope() {
        if (status_.is_ok()) backend_.leave_thread(before_);
    }
    DeviceScope(const DeviceScope&) = delete;  // one return for one entry
    DeviceScope& operator=(const DeviceScope&) = delete;

    // Where it is not ok, the backend must not be called.
    const DeviceStatus& status() const noexcept { return status_; }

  private:
    DeviceBackend& backend_;
    DeviceBackend::ThreadState before_;
    const DeviceStatus status_;
};

}  // namespace fastload

// Interface of a device: copies in the background, and their completion.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fastload {

// A stream as torch.cuda.Stream.cuda_stream gives it. 0 is the device's default stream.
using StreamId = std::uintptr_t;
// 0 is no event.
using EventId = std::uintptr_t;

// A result of the device's runtime. Static storage only: cheap to copy, safe to store.
struct [[nodiscard]] DeviceStatus {
    int error = 0;          // the runtime's number; 0 is success
    const char* name = "";  // the runtime's name of the error, such as "cudaErrorIllegalAddress"
    const char* text = "";  // its text
    const char* call = "";  // the function that returned it

    constexpr bool is_ok() const noexcept { return error == 0; }
};

// One device. Thread-safe. All functions except enter() are called inside of a DeviceScope of the calling thread. torch
// makes the streams.
class DeviceBackend {
  public:
    // The state that a thread had set before.
    struct ThreadState {
        int device = 0;
        int capture_mode = 0;
    };

    virtual ~DeviceBackend() = default;

    // Makes this device current for the calling thread, and lets the thread make calls that would otherwise break a
    // graph capture in another thread (the relaxed mode).
    virtual DeviceStatus enter_thread(ThreadState* before) noexcept = 0;
    virtual void leave_thread(const ThreadState& before) noexcept = 0;

    // Creates an event without timing.
    virtual DeviceStatus create_event(EventId* event) noexcept = 0;
    virtual void destroy_event(EventId event) noexcept = 0;

    // Queues a copy from the host to the device and returns. Pinned memory is read later, when the stream gets there;
    // pageable memory may or may not have been read on return.
    virtual DeviceStatus copy_to_device(void* to, const void* from, std::size_t size_bytes,
                                        StreamId stream) noexcept = 0;

    // The event is done when all work queued on the stream before is done. Recording again forgets the earlier record.
    virtual DeviceStatus record_event(EventId event, StreamId stream) noexcept = 0;
    // An event that was never recorded is done. An error may come from any earlier work on the device.
    virtual DeviceStatus query_event(EventId event, bool* is_done) noexcept = 0;
};

// Makes the device current for the calling thread during a scope.
class DeviceScope {
  public:
    explicit DeviceScope(DeviceBackend& backend) noexcept
        : backend_(backend), status_(backend.enter_thread(&before_)) {}
    ~DeviceScope() {
        if (status_.is_ok()) backend_.leave_thread(before_);
    }
    DeviceScope(const DeviceScope&) = delete;  // one leave() for each enter()
    DeviceScope& operator=(const DeviceScope&) = delete;

    // If it is not ok, do not call the backend.
    const DeviceStatus& status() const noexcept { return status_; }

  private:
    DeviceBackend& backend_;
    DeviceBackend::ThreadState before_;
    const DeviceStatus status_;
};

}  // namespace fastload

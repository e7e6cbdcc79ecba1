// A device whose streams are fibers of the thread sanitizer: it reports every access that CUDA does not order, whatever
// the timing. For the tsan flavor only; its source is compiled without the sanitizer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "device/backend.h"

namespace fastload::testing {

// Note [fibers]
// Work is done at once, in the calling thread, but in the name of the stream's fiber, so the sanitizer takes it for
// that of a thread of its own. What CUDA orders is told to it: work on a stream comes after what its caller did before,
// and after the stream's own earlier work; what waits for an event, or sees that it is done, comes after what was
// recorded. Nothing else is: the lock inside is one the sanitizer does not see, and nothing inside is allocated or
// freed while threads use the device, which would be accesses too. Cannot show what a deadlock or real overlap would
// do.
//
// Kernels of instrumented code cannot run on a fiber, whose stack is the caller's: read() stands for them.
class FiberDevice final : public DeviceBackend {
  public:
    static constexpr std::size_t kMaxStreams = 64;
    static constexpr std::size_t kMaxEvents = 4096;
    static constexpr std::size_t kMaxRecords = std::size_t{1} << 16;

    FiberDevice();
    ~FiberDevice() override;

    DeviceStatus enter_thread(ThreadState* before) noexcept override;
    void leave_thread(const ThreadState& before) noexcept override;
    // Out of memory after kMaxEvents events, and record_event after kMaxRecords records: none is used again.
    DeviceStatus create_event(EventId* event) noexcept override;
    void destroy_event(EventId event) noexcept override;
    DeviceStatus copy_to_device(void* to, const void* from, std::size_t size_bytes, StreamId stream) noexcept override;
    DeviceStatus record_event(EventId event, StreamId stream) noexcept override;
    DeviceStatus query_event(EventId event, bool* is_done) noexcept override;

    // What torch and the user's code do. Stream 0 exists.
    StreamId create_stream() noexcept;
    void wait_event(StreamId stream, EventId event) noexcept;
    // A kernel that reads this memory, or writes it.
    void read(StreamId stream, const void* address, std::size_t size_bytes) noexcept;
    void write(StreamId stream, void* address, std::size_t size_bytes) noexcept;

  private:
    struct State;
    class Locked;
    class OnFiber;

    const std::unique_ptr<State> state_;
};

}  // namespace fastload::testing

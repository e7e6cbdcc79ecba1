#include "fiber_device.h"

#include <sanitizer/tsan_interface.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {
// What instrumented code calls; not in the sanitizer's header.
void __tsan_read_range(void* address, unsigned long size_bytes);
void __tsan_write_range(void* address, unsigned long size_bytes);
}

namespace fastload::testing {
namespace {

constexpr int kOutOfMemory = 2;

}  // namespace

struct FiberDevice::State {
    // The sanitizer knows an order by an address that is released and acquired.
    struct Key {
        std::uint64_t address_only;
    };

    bool is_locked = false;
    std::size_t num_streams = 0;
    void* fibers[kMaxStreams] = {};
    Key enqueued[kMaxStreams] = {};
    std::size_t num_events = 0;
    Key* recorded_last[kMaxEvents + 1] = {};  // by event; null while never recorded
    std::size_t num_records = 0;
    Key records[kMaxRecords] = {};
};

// The lock that the sanitizer does not see: plain machine instructions.
class FiberDevice::Locked {
  public:
    explicit Locked(State& state) : state_(state) {
        while (__atomic_test_and_set(&state_.is_locked, __ATOMIC_ACQUIRE)) continue;
    }
    ~Locked() { __atomic_clear(&state_.is_locked, __ATOMIC_RELEASE); }
    Locked(const Locked&) = delete;  // a scope, not a value
    Locked& operator=(const Locked&) = delete;

  private:
    State& state_;
};

// While it lives, the calling thread is the stream, with the lock.
class FiberDevice::OnFiber {
  public:
    OnFiber(State& state, StreamId stream) : locked_(state), caller_(__tsan_get_current_fiber()) {
        __tsan_release(&state.enqueued[stream]);
        __tsan_switch_to_fiber(state.fibers[stream], __tsan_switch_to_fiber_no_sync);
        __tsan_acquire(&state.enqueued[stream]);
    }
    ~OnFiber() { __tsan_switch_to_fiber(caller_, __tsan_switch_to_fiber_no_sync); }
    OnFiber(const OnFiber&) = delete;  // a scope, not a value
    OnFiber& operator=(const OnFiber&) = delete;

  private:
    const Locked locked_;
    void* const caller_;
};

FiberDevice::FiberDevice() : state_(new State) { static_cast<void>(create_stream()); }

FiberDevice::~FiberDevice() {
    for (std::size_t i = 0; i < state_->num_streams; ++i) __tsan_destroy_fiber(state_->fibers[i]);
}

DeviceStatus FiberDevice::enter_thread(ThreadState* before) noexcept {
    *before = ThreadState{};
    return {};
}

void FiberDevice::leave_thread(const ThreadState&) noexcept {}

DeviceStatus FiberDevice::create_event(EventId* event) noexcept {
    const Locked locked(*state_);
    if (state_->num_events == kMaxEvents) return {kOutOfMemory, "kMaxEvents", "too many events", "create_event"};
    *event = ++state_->num_events;
    return {};
}

void FiberDevice::destroy_event(EventId) noexcept {}

DeviceStatus FiberDevice::copy_to_device(void* to, const void* from, std::size_t size_bytes, StreamId stream) noexcept {
    const OnFiber on_fiber(*state_, stream);
    std::memcpy(to, from, size_bytes);  // the sanitizer's: it sees both ranges
    return {};
}

DeviceStatus FiberDevice::record_event(EventId event, StreamId stream) noexcept {
    const OnFiber on_fiber(*state_, stream);
    if (state_->num_records == kMaxRecords) return {kOutOfMemory, "kMaxRecords", "too many records", "record_event"};
    State::Key* const key = &state_->records[state_->num_records++];
    state_->recorded_last[event] = key;
    __tsan_release(key);
    return {};
}

DeviceStatus FiberDevice::query_event(EventId event, bool* is_done) noexcept {
    const Locked locked(*state_);
    if (State::Key* const key = state_->recorded_last[event]) __tsan_acquire(key);
    *is_done = true;
    return {};
}

StreamId FiberDevice::create_stream() noexcept {
    const Locked locked(*state_);
    if (state_->num_streams == kMaxStreams) std::abort();
    void* const fiber = __tsan_create_fiber(0);
    char name[32];
    std::snprintf(name, sizeof name, "stream %zu", state_->num_streams);
    __tsan_set_fiber_name(fiber, name);
    state_->fibers[state_->num_streams] = fiber;
    return state_->num_streams++;
}

void FiberDevice::wait_event(StreamId stream, EventId event) noexcept {
    const OnFiber on_fiber(*state_, stream);
    if (State::Key* const key = state_->recorded_last[event]) __tsan_acquire(key);
}

void FiberDevice::read(StreamId stream, const void* address, std::size_t size_bytes) noexcept {
    const OnFiber on_fiber(*state_, stream);
    __tsan_read_range(const_cast<void*>(address), size_bytes);
}

void FiberDevice::write(StreamId stream, void* address, std::size_t size_bytes) noexcept {
    const OnFiber on_fiber(*state_, stream);
    __tsan_write_range(address, size_bytes);
}

}  // namespace fastload::testing

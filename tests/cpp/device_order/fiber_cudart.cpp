#include "fiber_cudart.h"

#include <sanitizer/tsan_interface.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

extern "C" {
// Functions that instrumented code calls; they are not in the sanitizer's header.
void __tsan_read_range(void* address, unsigned long size_bytes);
}

namespace {

constexpr std::size_t kMaxStreams = 64;
constexpr std::size_t kMaxEvents = 4096;
constexpr std::size_t kMaxRecords = std::size_t{1} << 16;

// The sanitizer derives an order from an address that is released and acquired.
struct Key {
    std::uint64_t address_only;
};

// Streams and events are numbers; stream 0 is the default one. No number is reused: when all are used up, the runtime
// reports that it is out of memory.
bool is_locked = false;
std::size_t num_streams = 1;
void* fibers[kMaxStreams];
Key enqueued[kMaxStreams];
std::size_t num_events = 0;
Key* recorded_last[kMaxEvents + 1];  // by event; null while never recorded
std::size_t num_records = 0;
Key records[kMaxRecords];

std::size_t number_of(void* handle) { return reinterpret_cast<std::size_t>(handle); }

// A lock that the sanitizer does not see: plain machine instructions.
class Locked {
  public:
    Locked() {
        while (__atomic_test_and_set(&is_locked, __ATOMIC_ACQUIRE)) continue;
    }
    ~Locked() { __atomic_clear(&is_locked, __ATOMIC_RELEASE); }
    Locked(const Locked&) = delete;  // a scope, not a value
    Locked& operator=(const Locked&) = delete;
};

// The fiber of a stream, made with its first work.
void* fiber_of(std::size_t stream) {
    if (fibers[stream] == nullptr) {
        fibers[stream] = __tsan_create_fiber(0);
        char name[32];
        std::snprintf(name, sizeof name, "stream %zu", stream);
        __tsan_set_fiber_name(fibers[stream], name);
    }
    return fibers[stream];
}

// While it lives, the calling thread is the stream, and has the lock.
class OnFiber {
  public:
    explicit OnFiber(void* stream) : caller_(__tsan_get_current_fiber()) {
        Key* const key = &enqueued[number_of(stream)];
        __tsan_release(key);
        __tsan_switch_to_fiber(fiber_of(number_of(stream)), __tsan_switch_to_fiber_no_sync);
        __tsan_acquire(key);
    }
    ~OnFiber() { __tsan_switch_to_fiber(caller_, __tsan_switch_to_fiber_no_sync); }
    OnFiber(const OnFiber&) = delete;  // a scope, not a value
    OnFiber& operator=(const OnFiber&) = delete;

  private:
    const Locked locked_;
    void* const caller_;
};

void acquire_record(void* event) {
    if (Key* const key = recorded_last[number_of(event)]) __tsan_acquire(key);
}

}  // namespace

extern "C" {

int cudaRuntimeGetVersion(int* version) {
    *version = 12040;
    return 0;
}

int cudaDriverGetVersion(int* version) { return cudaRuntimeGetVersion(version); }

int cudaGetDeviceCount(int* count) {
    *count = 1;
    return 0;
}

int cudaGetDevice(int* device) {
    *device = 0;
    return 0;
}

int cudaSetDevice(int) { return 0; }

int cudaThreadExchangeStreamCaptureMode(int*) { return 0; }

int cudaStreamCreateWithFlags(void** stream, unsigned int) {
    const Locked locked;
    if (num_streams == kMaxStreams) return fake_cuda::kMemoryAllocation;
    *stream = reinterpret_cast<void*>(num_streams++);
    return 0;
}

int cudaStreamWaitEvent(void* stream, void* event, unsigned int) {
    const OnFiber on_fiber(stream);
    acquire_record(event);
    return 0;
}

int cudaEventCreateWithFlags(void** event, unsigned int) {
    const Locked locked;
    if (num_events == kMaxEvents) return fake_cuda::kMemoryAllocation;
    *event = reinterpret_cast<void*>(++num_events);
    return 0;
}

int cudaEventDestroy(void*) { return 0; }

int cudaEventRecord(void* event, void* stream) {
    const OnFiber on_fiber(stream);
    if (num_records == kMaxRecords) return fake_cuda::kMemoryAllocation;
    Key* const key = &records[num_records++];
    recorded_last[number_of(event)] = key;
    __tsan_release(key);
    return 0;
}

int cudaEventQuery(void* event) {
    const Locked locked;
    acquire_record(event);
    return 0;
}

int cudaMemcpyAsync(void* to, const void* from, std::size_t size_bytes, int, void* stream) {
    const OnFiber on_fiber(stream);
    std::memcpy(to, from, size_bytes);  // the sanitizer's: it sees both ranges
    return 0;
}

const char* cudaGetErrorName(int error) { return error == 0 ? "cudaSuccess" : "cudaErrorMemoryAllocation"; }

const char* cudaGetErrorString(int error) { return error == 0 ? "no error" : "out of memory"; }

int cudaGetLastError() { return 0; }

void fiber_read(void* stream, const void* address, std::size_t size_bytes) {
    const OnFiber on_fiber(stream);
    __tsan_read_range(const_cast<void*>(address), size_bytes);
}

}  // extern "C"

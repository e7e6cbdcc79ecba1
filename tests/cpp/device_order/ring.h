// A ring of host slots and device buffers, used correctly or with one wait forgotten: the test of the test runtimes.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "device/backend.h"
#include "fake_cuda/cudart.h"

namespace fastload::testing {

enum class Forgotten {
    kNothing,
    kRefill,     // the host fills a slot again without waiting for the copy from it
    kOverwrite,  // a copy goes into a buffer without waiting for the kernel that reads it
    kConsume,    // a kernel reads a buffer without waiting for the copy into it
};

// Returns false if `name` is none of right, refill, overwrite, consume.
inline bool parse_forgotten(const char* name, Forgotten* forgotten) {
    constexpr const char* kNames[] = {"right", "refill", "overwrite", "consume"};
    for (int i = 0; i < 4; ++i) {
        *forgotten = static_cast<Forgotten>(i);
        if (std::strcmp(name, kNames[i]) == 0) return true;
    }
    return false;
}

constexpr int kNumSlots = 3;
constexpr int kNumBatches = 300;

using Slot = std::array<std::uint16_t, 512>;

inline Slot batch_data(int batch) {
    Slot slot;
    slot.fill(static_cast<std::uint16_t>(batch + 1));
    return slot;
}

// Must outlive the device's work.
struct RingMemory {
    Slot host[kNumSlots];
    Slot buffers[kNumSlots];
};

// Makes streams and waits as torch does, in a DeviceScope.
inline bool create_stream(StreamId* stream) {
    constexpr unsigned int kNonBlocking = 1;
    void* handle = nullptr;
    const int error = cudaStreamCreateWithFlags(&handle, kNonBlocking);
    *stream = reinterpret_cast<StreamId>(handle);
    return error == 0;
}

inline bool wait_event(StreamId stream, EventId event) {
    return cudaStreamWaitEvent(reinterpret_cast<void*>(stream), reinterpret_cast<void*>(event), 0) == 0;
}

// `Player` is the test's use of the device: consume(stream, buffer, batch) enqueues a kernel, finish(event) waits in
// the host, pause() comes after each batch. Returns false if a call failed.
template <typename Player>
bool run_ring(DeviceBackend& device, Player& player, Forgotten forgotten, RingMemory* memory) {
    Slot* const host = memory->host;
    Slot* const buffers = memory->buffers;
    EventId copied[kNumSlots];
    EventId consumed[kNumSlots];
    const DeviceScope scope(device);
    bool is_ok = scope.status().is_ok();
    for (int slot = 0; slot < kNumSlots; ++slot) {
        is_ok = is_ok && device.create_event(&copied[slot]).is_ok() && device.create_event(&consumed[slot]).is_ok();
    }
    StreamId copies = 0;
    StreamId compute = 0;
    is_ok = is_ok && create_stream(&copies) && create_stream(&compute);
    for (int batch = 0; batch < kNumBatches && is_ok; ++batch) {
        const int slot = batch % kNumSlots;
        if (forgotten != Forgotten::kRefill) player.finish(copied[slot]);
        host[slot] = batch_data(batch);
        if (forgotten != Forgotten::kOverwrite) is_ok = wait_event(copies, consumed[slot]);
        is_ok = is_ok && device.copy_to_device(&buffers[slot], &host[slot], sizeof(Slot), copies).is_ok() &&
                device.record_event(copied[slot], copies).is_ok();
        if (forgotten != Forgotten::kConsume) is_ok = is_ok && wait_event(compute, copied[slot]);
        player.consume(compute, buffers[slot], batch);
        is_ok = is_ok && device.record_event(consumed[slot], compute).is_ok();
        player.pause();
    }
    for (int slot = 0; slot < kNumSlots && is_ok; ++slot) {
        player.finish(copied[slot]);
        player.finish(consumed[slot]);
    }
    return is_ok;
}

}  // namespace fastload::testing

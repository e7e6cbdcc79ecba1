// The product's own staging ring and batch copies, with threads that write the batches.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "engine/batch/staging_ring.h"
#include "fake_cuda/cudart.h"

namespace fastload::testing {

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
// the host, wait_for_slot(copies) lets the device go on while no slot is free, pause() comes after each batch. The last
// batches are still in flight when it returns. Returns false if a call failed.
template <typename Player>
bool run_staged(const std::shared_ptr<DeviceBackend>& backend, Player& player, RingMemory* memory) {
    DeviceBackend& device = *backend;
    Slot* const buffers = memory->buffers;
    EventId copied = 0;
    EventId consumed[kNumSlots];
    const DeviceScope scope(device);
    bool is_ok = scope.status().is_ok() && device.create_event(&copied).is_ok();
    for (EventId& event : consumed) is_ok = is_ok && device.create_event(&event).is_ok();
    StreamId copies = 0;
    StreamId compute = 0;
    is_ok = is_ok && create_stream(&copies) && create_stream(&compute);
    const std::shared_ptr<StagingRing> ring =
        StagingRing::open(backend, reinterpret_cast<std::uint8_t*>(memory->host), sizeof(Slot), kNumSlots, nullptr);
    for (int batch = 0; batch < kNumBatches && is_ok; ++batch) {
        Slot* const buffer = &buffers[batch % kNumSlots];
        std::unique_ptr<StagingSlot> slot;
        while (ring->take(&slot).is_ok() && slot == nullptr) player.wait_for_slot(copies);
        if (slot == nullptr) return false;
        std::uint8_t* const data = slot->data();
        BatchCopy copy(std::move(slot), std::vector<StagedPart>{{0, sizeof(Slot), nullptr}}, copies);
        std::thread writer([&copy, data, batch] {
            const Slot bytes = batch_data(batch);
            std::memcpy(data, &bytes, sizeof(Slot));
            copy.set_written();
        });
        is_ok = wait_event(copies, consumed[batch % kNumSlots]);
        void* const to = buffer;
        copy.set_destinations({&to, 1});
        writer.join();
        is_ok = is_ok && copy.status().is_ok() && device.record_event(copied, copies).is_ok();
        is_ok = is_ok && wait_event(compute, copied);
        player.consume(compute, *buffer, batch);
        is_ok = is_ok && device.record_event(consumed[batch % kNumSlots], compute).is_ok();
        player.pause();
    }
    player.finish(consumed[(kNumBatches - 1) % kNumSlots]);
    return is_ok;
}

}  // namespace fastload::testing

// Pinned memory in which batches are written before they are copied to a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/span.h"
#include "device/backend.h"
#include "engine/fork_guard.h"

namespace fastload {

// Note [staging slots]
// free -> held -> copying -> free. A slot is held as long as its StagingSlot exists, which belongs to the batch whose
// samples are written to it. After that the slot is copying until the event recorded after its last copy is done, and
// only then is it given out again. No thread waits for the event: while no slot is free, fewer batches are in flight. A
// ring that is dropped during a copy keeps its memory until a sweep finds the copy done; at the end of the process the
// system takes it.

// From an address in a slot to one on the device.
struct StagedPart {
    std::size_t offset = 0;
    std::size_t size_bytes = 0;
    void* to = nullptr;
};

class StagingRing;

// The use of one slot. Not thread-safe.
class StagingSlot {
  public:
    ~StagingSlot();
    StagingSlot(const StagingSlot&) = delete;  // the slot is given back once
    StagingSlot& operator=(const StagingSlot&) = delete;

    std::uint8_t* data() const noexcept;
    std::size_t size_bytes() const noexcept;

    // Queues copies and, after them, the event. If that fails, the slot is given out again only if the device is known
    // to have finished with it.
    DeviceStatus copy(Span<const StagedPart> parts, StreamId stream) noexcept;

  private:
    friend class StagingRing;
    StagingSlot(std::shared_ptr<StagingRing> ring, std::size_t number) noexcept
        : ring_(std::move(ring)), number_(number) {}

    const std::shared_ptr<StagingRing> ring_;
    const std::size_t number_;
};

// Lives as long as somebody keeps it, a slot is held or being copied from. Thread-safe. A forked child leaks its copies
// of its parent's objects.
class StagingRing : public std::enable_shared_from_this<StagingRing> {
  public:
    // `data` has room for all slots and stays valid through `owner`. May throw std::bad_alloc.
    static std::shared_ptr<StagingRing> open(std::shared_ptr<DeviceBackend> backend, std::uint8_t* data,
                                             std::size_t slot_bytes, std::size_t num_slots,
                                             std::shared_ptr<void> owner);

    // Releases the memory of rings that ended during a copy which is done by now.
    static void sweep() noexcept;

    // Returns a slot that is neither written to nor copied from; *slot is null if there is none now. Returns a failure
    // if there is none and the device does not say of each copy whether it is done. May throw std::bad_alloc.
    DeviceStatus take(std::unique_ptr<StagingSlot>* slot);

  private:
    friend class StagingSlot;

    struct Slot {
        bool is_held = false;
        bool is_copying = false;
        bool has_event = false;  // recorded after its last copy; otherwise the end of that copy is unknown
        EventId event = 0;
        StreamId stream{};  // of its last copy
    };

    StagingRing(std::shared_ptr<DeviceBackend> backend, std::uint8_t* data, std::size_t slot_bytes,
                std::size_t num_slots, std::shared_ptr<void> owner);
    ~StagingRing();

    // The deleter: destroys the ring, or keeps it until no copy reads from it.
    static void let_go(StagingRing* ring) noexcept;

    bool is_forked() const noexcept { return generation_ != fork_generation(); }
    DeviceStatus look_at(Slot* slot) noexcept;  // under mutex_
    bool is_idle() noexcept;

    const std::uint32_t generation_ = fork_generation();
    const std::shared_ptr<DeviceBackend> backend_;
    std::uint8_t* const data_;
    const std::size_t slot_bytes_;
    const std::shared_ptr<void> owner_;
    std::mutex mutex_;
    std::vector<Slot> slots_;  // guarded by mutex_
    std::size_t next_ = 0;     // guarded by mutex_
};

// One batch on its way from its staging slot to the device. Thread-safe. The copy needs two things, in either order:
// the batch is written, and there is room for it on the device. The thread that brings the second one queues the copy;
// no thread waits.
class BatchCopy {
  public:
    // The destinations of `parts` are set later. May throw std::bad_alloc.
    BatchCopy(std::shared_ptr<StagingSlot> slot, std::vector<StagedPart> parts, StreamId stream);

    std::size_t num_parts() const noexcept { return parts_.size(); }

    // Sets the destination of each part, which must stay valid until the stream has finished the copy. Later calls do
    // nothing.
    void set_destinations(Span<void* const> to) noexcept;

    // Call from the thread that has written the last sample.
    void set_written() noexcept;

    // The result of the copy, once it was tried.
    DeviceStatus status() const noexcept;

  private:
    void queue_where_possible() noexcept;  // under mutex_

    mutable std::mutex mutex_;
    const std::shared_ptr<StagingSlot> slot_;
    std::vector<StagedPart> parts_;
    const StreamId stream_;
    bool has_destinations_ = false;
    bool is_written_ = false;
    bool is_queued_ = false;
    DeviceStatus status_;
};

}  // namespace fastload

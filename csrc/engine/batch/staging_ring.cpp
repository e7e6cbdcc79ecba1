#include "engine/batch/staging_ring.h"

#include <algorithm>
#include <utility>

#include "engine/fork_guard.h"

namespace fastload {

// The slots of a ring. It lives as long as a slot is held or being copied from.
class StagingSlot::Memory {
  public:
    Memory(std::shared_ptr<DeviceBackend> backend, std::uint8_t* data, std::size_t slot_bytes, std::size_t num_slots,
           std::shared_ptr<void> owner)
        : backend_(std::move(backend)), data_(data), slot_bytes_(slot_bytes), owner_(std::move(owner)) {
        slots_.resize(num_slots);
    }

    // Deleter for a shared_ptr: destroys `memory`, or keeps it until no copy reads from it.
    static void let_go(Memory* memory) noexcept;
    // Destroys kept memory that is no longer being read.
    static void sweep() noexcept;

    std::uint8_t* slot_data(std::size_t number) const noexcept { return data_ + number * slot_bytes_; }
    std::size_t slot_bytes() const noexcept { return slot_bytes_; }

    // Returns the number of a free slot, which is held now; the number of slots if none is free.
    DeviceStatus hold_one(std::size_t* number) noexcept {
        const std::lock_guard<std::mutex> lock(mutex_);
        *number = slots_.size();
        DeviceStatus failure;
        for (std::size_t i = 0; i < slots_.size(); ++i) {
            const std::size_t candidate = (next_ + i) % slots_.size();
            Slot& slot = slots_[candidate];
            if (slot.is_held) continue;
            const DeviceStatus status = look_at(&slot);
            if (!status.is_ok()) failure = status;
            if (slot.is_copying) continue;
            slot.is_held = true;
            next_ = (candidate + 1) % slots_.size();
            *number = candidate;
            return {};
        }
        return failure;
    }

    std::size_t num_slots() const noexcept { return slots_.size(); }

    void give_back(std::size_t number) noexcept {
        if (is_forked()) return;
        const std::lock_guard<std::mutex> lock(mutex_);
        slots_[number].is_held = false;
    }

    DeviceStatus copy(std::size_t number, Span<const StagedPart> parts, StreamId stream) noexcept {
        const DeviceScope scope(*backend_);
        if (!scope.status().is_ok()) return scope.status();
        const std::lock_guard<std::mutex> lock(mutex_);
        Slot& slot = slots_[number];
        if (slot.event == 0) {
            const DeviceStatus status = backend_->create_event(&slot.event);
            if (!status.is_ok()) return status;
        }
        slot.is_copying = true;
        slot.stream = stream;
        DeviceStatus status;
        for (const StagedPart& part : parts) {
            status = backend_->copy_to_device(part.to, slot_data(number) + part.offset, part.size_bytes, stream);
            if (!status.is_ok()) break;
        }
        const DeviceStatus recorded = backend_->record_event(slot.event, stream);
        slot.has_event = recorded.is_ok();
        return status.is_ok() ? recorded : status;
    }

  private:
    struct Slot {
        bool is_held = false;
        bool is_copying = false;
        bool has_event = false;  // recorded after its last copy; otherwise the end of that copy is unknown
        EventId event = 0;
        StreamId stream{};  // of its last copy
    };

    ~Memory() {
        const DeviceScope scope(*backend_);
        if (!scope.status().is_ok()) return;
        for (const Slot& slot : slots_) {
            if (slot.event != 0) backend_->destroy_event(slot.event);
        }
    }

    bool is_forked() const noexcept { return generation_ != fork_generation(); }

    // Updates is_copying. Under mutex_.
    DeviceStatus look_at(Slot* slot) noexcept {
        if (!slot->is_copying) return {};
        const DeviceScope scope(*backend_);
        if (!scope.status().is_ok()) return scope.status();
        if (!slot->has_event) {  // an event recorded later comes after the copy, too
            const DeviceStatus recorded = backend_->record_event(slot->event, slot->stream);
            if (!recorded.is_ok()) return recorded;
            slot->has_event = true;
        }
        bool is_done = false;
        const DeviceStatus status = backend_->query_event(slot->event, &is_done);
        if (status.is_ok() && is_done) slot->is_copying = false;
        return status;
    }

    bool is_idle() noexcept {
        const std::lock_guard<std::mutex> lock(mutex_);
        return std::all_of(slots_.begin(), slots_.end(),
                           [this](Slot& slot) { return look_at(&slot).is_ok() && !slot.is_copying; });
    }

    const std::uint32_t generation_ = fork_generation();
    const std::shared_ptr<DeviceBackend> backend_;
    std::uint8_t* const data_;
    const std::size_t slot_bytes_;
    const std::shared_ptr<void> owner_;
    std::mutex mutex_;
    std::vector<Slot> slots_;  // guarded by mutex_
    std::size_t next_ = 0;     // guarded by mutex_
};

namespace {

// Rings that were dropped during a copy. Never destroyed: the process may end first.
struct Kept {
    std::mutex mutex;
    std::vector<void*> memories;
};

Kept& kept() {
    static auto* list = new Kept;
    return *list;
}

}  // namespace

void StagingSlot::Memory::let_go(Memory* memory) noexcept {
    if (memory->is_forked()) return;
    if (memory->is_idle()) {
        delete memory;
        return;
    }
    try {
        const std::lock_guard<std::mutex> lock(kept().mutex);
        kept().memories.push_back(memory);
    } catch (...) {
        return;  // no memory for the list: it is leaked
    }
}

void StagingSlot::Memory::sweep() noexcept {
    const std::lock_guard<std::mutex> lock(kept().mutex);
    std::vector<void*>& memories = kept().memories;
    const auto is_over = [](void* pointer) {
        auto* memory = static_cast<Memory*>(pointer);
        if (memory->is_forked() || !memory->is_idle()) return false;
        delete memory;
        return true;
    };
    memories.erase(std::remove_if(memories.begin(), memories.end(), is_over), memories.end());
}

StagingSlot::StagingSlot(std::shared_ptr<Memory> memory, std::size_t number) noexcept
    : memory_(std::move(memory)), number_(number) {}

StagingSlot::~StagingSlot() { memory_->give_back(number_); }

std::uint8_t* StagingSlot::data() const noexcept { return memory_->slot_data(number_); }

std::size_t StagingSlot::size_bytes() const noexcept { return memory_->slot_bytes(); }

DeviceStatus StagingSlot::copy(Span<const StagedPart> parts, StreamId stream) noexcept {
    return memory_->copy(number_, parts, stream);
}

StagingRing::StagingRing(std::shared_ptr<DeviceBackend> backend, std::uint8_t* data, std::size_t slot_bytes,
                         std::size_t num_slots, std::shared_ptr<void> owner)
    : memory_(new StagingSlot::Memory(std::move(backend), data, slot_bytes, num_slots, std::move(owner)),
              StagingSlot::Memory::let_go) {}

void StagingRing::sweep() noexcept { StagingSlot::Memory::sweep(); }

DeviceStatus StagingRing::take(std::unique_ptr<StagingSlot>* slot) {
    slot->reset();
    std::size_t number = 0;
    const DeviceStatus status = memory_->hold_one(&number);
    if (!status.is_ok() || number == memory_->num_slots()) return status;
    try {
        slot->reset(new StagingSlot(memory_, number));
    } catch (...) {
        memory_->give_back(number);
        throw;
    }
    return {};
}

BatchCopy::BatchCopy(std::shared_ptr<StagingSlot> slot, std::vector<StagedPart> parts, StreamId stream)
    : slot_(std::move(slot)), parts_(std::move(parts)), stream_(stream) {}

void BatchCopy::set_destinations(Span<void* const> to) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (has_destinations_) return;
    for (std::size_t i = 0; i < parts_.size(); ++i) parts_[i].to = to[i];
    has_destinations_ = true;
    queue_where_possible();
}

void BatchCopy::set_written() noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_written_ = true;
    queue_where_possible();
}

void BatchCopy::queue_where_possible() noexcept {
    if (!has_destinations_ || !is_written_ || is_queued_) return;
    is_queued_ = true;
    status_ = slot_->copy({parts_.data(), parts_.size()}, stream_);
}

bool BatchCopy::is_queued() const noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    return is_queued_;
}

DeviceStatus BatchCopy::status() const noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    return status_;
}

}  // namespace fastload

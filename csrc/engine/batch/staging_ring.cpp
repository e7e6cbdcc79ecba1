#include "engine/batch/staging_ring.h"

#include <algorithm>
#include <utility>

namespace fastload {
namespace {

// Rings that were dropped during a copy. Never destroyed: the process may end first.
struct Kept {
    std::mutex mutex;
    std::vector<StagingRing*> rings;
};

Kept& kept() {
    static auto* list = new Kept;
    return *list;
}

}  // namespace

std::uint8_t* StagingSlot::data() const noexcept { return ring_->data_ + number_ * size_bytes(); }

std::size_t StagingSlot::size_bytes() const noexcept { return ring_->slot_bytes_; }

StagingSlot::~StagingSlot() {
    if (ring_->is_forked()) return;
    const std::lock_guard<std::mutex> lock(ring_->mutex_);
    ring_->slots_[number_].is_held = false;
}

DeviceStatus StagingSlot::copy(Span<const StagedPart> parts, StreamId stream) noexcept {
    DeviceBackend& backend = *ring_->backend_;
    const DeviceScope scope(backend);
    if (!scope.status().is_ok()) return scope.status();
    const std::lock_guard<std::mutex> lock(ring_->mutex_);
    StagingRing::Slot& slot = ring_->slots_[number_];
    if (slot.event == 0) {
        const DeviceStatus status = backend.create_event(&slot.event);
        if (!status.is_ok()) return status;
    }
    slot.is_copying = true;
    slot.stream = stream;
    DeviceStatus status;
    for (const StagedPart& part : parts) {
        status = backend.copy_to_device(part.to, data() + part.offset, part.size_bytes, stream);
        if (!status.is_ok()) break;
    }
    const DeviceStatus recorded = backend.record_event(slot.event, stream);
    slot.has_event = recorded.is_ok();
    return status.is_ok() ? recorded : status;
}

StagingRing::StagingRing(std::shared_ptr<DeviceBackend> backend, std::uint8_t* data, std::size_t slot_bytes,
                         std::size_t num_slots, std::shared_ptr<void> owner)
    : backend_(std::move(backend)), data_(data), slot_bytes_(slot_bytes), owner_(std::move(owner)), slots_(num_slots) {}

StagingRing::~StagingRing() {
    const DeviceScope scope(*backend_);
    if (!scope.status().is_ok()) return;
    for (const Slot& slot : slots_) {
        if (slot.event != 0) backend_->destroy_event(slot.event);
    }
}

std::shared_ptr<StagingRing> StagingRing::open(std::shared_ptr<DeviceBackend> backend, std::uint8_t* data,
                                               std::size_t slot_bytes, std::size_t num_slots,
                                               std::shared_ptr<void> owner) {
    return {new StagingRing(std::move(backend), data, slot_bytes, num_slots, std::move(owner)), let_go};
}

DeviceStatus StagingRing::take(std::unique_ptr<StagingSlot>* slot) {
    slot->reset();
    const std::lock_guard<std::mutex> lock(mutex_);
    DeviceStatus failure;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
        const std::size_t candidate = (next_ + i) % slots_.size();
        Slot& known = slots_[candidate];
        if (known.is_held) continue;
        const DeviceStatus status = look_at(&known);
        if (!status.is_ok()) failure = status;
        if (known.is_copying) continue;
        slot->reset(new StagingSlot(shared_from_this(), candidate));
        known.is_held = true;
        next_ = (candidate + 1) % slots_.size();
        return {};
    }
    return failure;
}

// Updates is_copying.
DeviceStatus StagingRing::look_at(Slot* slot) noexcept {
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

bool StagingRing::is_idle() noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::all_of(slots_.begin(), slots_.end(),
                       [this](Slot& slot) { return look_at(&slot).is_ok() && !slot.is_copying; });
}

void StagingRing::let_go(StagingRing* ring) noexcept {
    if (ring->is_forked()) return;
    if (ring->is_idle()) {
        delete ring;
        return;
    }
    try {
        const std::lock_guard<std::mutex> lock(kept().mutex);
        kept().rings.push_back(ring);
    } catch (...) {
        return;  // no memory for the list: it is leaked
    }
}

void StagingRing::sweep() noexcept {
    const std::lock_guard<std::mutex> lock(kept().mutex);
    std::vector<StagingRing*>& rings = kept().rings;
    const auto is_over = [](StagingRing* ring) {
        if (ring->is_forked() || !ring->is_idle()) return false;
        delete ring;
        return true;
    };
    rings.erase(std::remove_if(rings.begin(), rings.end(), is_over), rings.end());
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

DeviceStatus BatchCopy::status() const noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    return status_;
}

}  // namespace fastload

#include "engine/cache/index_table.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace fastload {
namespace {

constexpr std::size_t kFirstSlots = 64;
// The part of all arenas that may become free before the records are packed again. With an eighth, records that are
// written 1.8 times in eight epochs, longer each time, are packed twice.
constexpr std::size_t kMaxFreePart = 8;

}  // namespace

std::size_t IndexTable::find(const ContentKey& key, Span<std::uint8_t> buffer) const noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    const Slot* slot = slot_of(Tags(key));
    if (slot == nullptr) return 0;
    const std::size_t size = head_at(slot->place).size;
    if (size <= buffer.size()) std::memcpy(buffer.data(), arenas_.at(slot->place) + sizeof(Head), size);
    return size;
}

bool IndexTable::put(const ContentKey& key, ByteSpan record) noexcept {
    if (record.is_empty() || record.size() > kMaxRecordBytes) return false;
    const Tags tags(key);
    const std::lock_guard<std::mutex> lock(mutex_);
    Slot* slot = slot_of(tags);
    return slot == nullptr ? insert(tags, record) : replace(slot, tags, record);
}

void IndexTable::remove(const ContentKey& key) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    const Slot* slot = slot_of(Tags(key));
    if (slot == nullptr) return;
    const std::size_t size = head_at(slot->place).size;
    arenas_.give_back(slot->place, units_of(size));
    slots_.remove(static_cast<std::size_t>(slot - slots_.slots.get()));
    --num_records_;
    record_bytes_ -= size;
}

void IndexTable::clear() noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    arenas_ = RecordArenas();
    slots_ = Slots();
    num_records_ = 0;
    record_bytes_ = 0;
    free_bytes_when_compact_ = 0;
}

IndexTable::Counts IndexTable::counts() const noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    return {num_records_, record_bytes_, arenas_.bytes() + slots_.bytes()};
}

std::size_t IndexTable::units_of(std::size_t record_bytes) noexcept {
    return (sizeof(Head) + record_bytes + RecordArenas::kUnitBytes - 1) / RecordArenas::kUnitBytes;
}

IndexTable::Head IndexTable::head_at(Place place) const noexcept {
    Head head;
    std::memcpy(&head, arenas_.at(place), sizeof head);
    return head;
}

void IndexTable::write(Place place, std::uint16_t tag, ByteSpan record) noexcept {
    const Head head = {static_cast<std::uint16_t>(record.size()), tag};
    std::memcpy(arenas_.at(place), &head, sizeof head);
    std::memcpy(arenas_.at(place) + sizeof head, record.data(), record.size());
}

IndexTable::Slot* IndexTable::slot_of(const Tags& tags) const noexcept {
    if (slots_.size == 0) return nullptr;
    for (std::size_t i = slots_.home(tags.slot);; i = slots_.next(i)) {
        Slot* slot = &slots_.slots[i];
        if (slot->place == RecordArenas::kNone) return nullptr;
        if (slot->tag == tags.slot && head_at(slot->place).tag == tags.head) return slot;
    }
}

IndexTable::Place IndexTable::take(std::size_t units, std::size_t slot_bytes) noexcept {
    const Place place = arenas_.take(units, 0);
    if (place != RecordArenas::kNone) return place;
    if (arenas_.free_bytes() > free_bytes_when_compact_ + arenas_.bytes() / kMaxFreePart) compact();
    return arenas_.take(units, max_arena_bytes(slot_bytes));
}

// Records grow as more is learnt, so the space that one leaves is too short for others of its kind.
void IndexTable::compact() noexcept {
    const std::unique_ptr<std::uint64_t[]> records(new (std::nothrow) std::uint64_t[num_records_]);  // place, slot
    if (records == nullptr) return;
    std::uint64_t* end = records.get();
    for (std::size_t i = 0; i < slots_.size; ++i) {
        if (slots_.slots[i].place != RecordArenas::kNone) *end++ = std::uint64_t{slots_.slots[i].place} << 32 | i;
    }
    std::sort(records.get(), end);
    arenas_.restart();  // see Note [moving places]
    for (const std::uint64_t* record = records.get(); record != end; ++record) {
        Slot& slot = slots_.slots[static_cast<std::uint32_t>(*record)];
        const std::size_t size = head_at(slot.place).size;
        const Place place = arenas_.take(units_of(size), 0);
        std::memmove(arenas_.at(place), arenas_.at(slot.place), sizeof(Head) + size);
        slot.place = place;
    }
    arenas_.drop_unused();
    free_bytes_when_compact_ = arenas_.free_bytes();
}

bool IndexTable::insert(const Tags& tags, ByteSpan record) noexcept {
    Slots grown;
    grown.size = num_slots_with_one_more();
    const bool is_growing = grown.size != slots_.size;
    if (is_growing) {
        if (arenas_.bytes() > max_arena_bytes(grown.bytes())) return false;
        grown.slots.reset(new (std::nothrow) Slot[grown.size]);
        if (grown.slots == nullptr) return false;
    }
    const Place place = take(units_of(record.size()), grown.bytes());
    if (place == RecordArenas::kNone) return false;
    if (is_growing) {
        for (std::size_t i = 0; i < slots_.size; ++i) {
            if (slots_.slots[i].place != RecordArenas::kNone) grown.add(slots_.slots[i]);
        }
        slots_ = std::move(grown);
    }
    write(place, tags.head, record);
    slots_.add({tags.slot, place});
    ++num_records_;
    record_bytes_ += record.size();
    return true;
}

bool IndexTable::replace(Slot* slot, const Tags& tags, ByteSpan record) noexcept {
    const std::size_t old_size = head_at(slot->place).size;
    const std::size_t old_units = units_of(old_size);
    const std::size_t units = units_of(record.size());
    if (units > old_units) {
        const Place place = take(units, slots_.bytes());
        if (place == RecordArenas::kNone) return false;
        arenas_.give_back(std::exchange(slot->place, place), old_units);
    } else if (units < old_units) {
        arenas_.give_back(static_cast<Place>(slot->place + units), old_units - units);
    }
    write(slot->place, tags.head, record);
    record_bytes_ += record.size() - old_size;
    return true;
}

// Grows by half instead of doubling, so that at least 7/12 of the slots are in use after it.
std::size_t IndexTable::num_slots_with_one_more() const noexcept {
    if (slots_.size == 0) return kFirstSlots;
    return 8 * (num_records_ + 1) <= 7 * slots_.size ? slots_.size : slots_.size + slots_.size / 2;
}

std::size_t IndexTable::max_arena_bytes(std::size_t slot_bytes) const noexcept {
    return slot_bytes < max_bytes_ ? max_bytes_ - slot_bytes : 0;
}

void IndexTable::Slots::add(Slot slot) noexcept {
    std::size_t i = home(slot.tag);
    while (slots[i].place != RecordArenas::kNone) i = next(i);
    slots[i] = slot;
}

// Moves later entries that may fill the hole, so that no search ends before its entry (Knuth, "The Art of Computer
// Programming", 6.4, algorithm R).
void IndexTable::Slots::remove(std::size_t index) noexcept {
    std::size_t hole = index;
    for (std::size_t i = next(hole); slots[i].place != RecordArenas::kNone; i = next(i)) {
        const auto distance_from = [&](std::size_t start) { return i >= start ? i - start : i + size - start; };
        if (distance_from(home(slots[i].tag)) < distance_from(hole)) continue;
        slots[hole] = slots[i];
        hole = i;
    }
    slots[hole] = {};
}

}  // namespace fastload

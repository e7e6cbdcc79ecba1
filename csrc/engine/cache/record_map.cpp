#include "engine/cache/record_map.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace fastload {
namespace {

constexpr std::size_t kMaxDeadPart = 16;

}  // namespace

std::size_t RecordMap::Record::copy_to(Span<std::uint8_t> buffer) const noexcept {
    if (size <= buffer.size()) std::copy_n(view().begin(), size, buffer.begin());
    return size;
}

std::size_t RecordMap::bytes_of(std::size_t record_bytes) noexcept {
    return (sizeof(Record) + record_bytes + alignof(Record) - 1) / alignof(Record) * alignof(Record);
}

const RecordMap::Record* RecordMap::find(const ContentKey& key) const noexcept {
    const auto known = records_.find(key);
    return known == records_.end() ? nullptr : known->second;
}

bool RecordMap::put(const ContentKey& key, std::uint32_t rank, ByteSpan record) noexcept try {
    make_room(bytes_of(record.size()));
    Record*& owner = records_[key];
    if (owner != nullptr) mark_dead(owner);
    owner = append(record.size());
    owner->owner = &owner;
    owner->rank = rank;
    std::memcpy(owner + 1, record.data(), record.size());
    record_bytes_ += record.size();
    try {
        clean();
    } catch (const std::bad_alloc&) {  // the next put() tries again
    }
    return true;
} catch (const std::bad_alloc&) {
    return false;
}

void RecordMap::remove(const ContentKey& key) noexcept {
    const auto known = records_.find(key);
    if (known == records_.end()) return;
    mark_dead(known->second);
    records_.erase(known);
}

// Opens another block if the open one has less room than that. May throw std::bad_alloc, with nothing changed.
void RecordMap::make_room(std::size_t bytes) {
    if (!blocks_.empty() && blocks_[open_].bytes != nullptr && kBlockBytes - blocks_[open_].used >= bytes) return;
    std::unique_ptr<std::uint8_t[]> made(new std::uint8_t[kBlockBytes]);
    const auto freed =
        std::find_if(blocks_.begin(), blocks_.end(), [](const Block& block) { return block.bytes == nullptr; });
    const auto index = static_cast<std::size_t>(freed - blocks_.begin());
    if (freed == blocks_.end()) blocks_.emplace_back();
    blocks_[index].bytes = std::move(made);
    open_ = index;
    ++num_blocks_;
}

// Call make_room() before.
RecordMap::Record* RecordMap::append(std::size_t record_bytes) noexcept {
    Block& block = blocks_[open_];
    auto* const record = new (block.bytes.get() + block.used) Record;
    record->size = static_cast<std::uint32_t>(record_bytes);
    record->block = open_;
    block.used += bytes_of(record_bytes);
    return record;
}

void RecordMap::mark_dead(Record* record) noexcept {
    record->owner = nullptr;
    blocks_[record->block].dead += bytes_of(record->size);
    dead_bytes_ += bytes_of(record->size);
    record_bytes_ -= record->size;
}

// May throw std::bad_alloc, with all records in place.
void RecordMap::clean() {
    while (dead_bytes_ > num_blocks_ * kBlockBytes / kMaxDeadPart) {
        const auto most = std::max_element(blocks_.begin(), blocks_.end(),
                                           [](const Block& a, const Block& b) { return a.dead < b.dead; });
        const auto index = static_cast<std::size_t>(most - blocks_.begin());
        if (index == open_) return;
        empty(index);
    }
}

// Appends the live records of a block again, and frees it.
void RecordMap::empty(std::size_t index) {
    for (std::size_t offset = 0; offset < blocks_[index].used;) {
        auto* const record = reinterpret_cast<Record*>(blocks_[index].bytes.get() + offset);
        offset += bytes_of(record->size);
        if (record->owner == nullptr) continue;
        make_room(bytes_of(record->size));
        Record* const moved = append(record->size);
        moved->owner = record->owner;
        moved->rank = record->rank;
        std::memcpy(moved + 1, record + 1, record->size);
        *moved->owner = moved;
        mark_dead(record);
        record_bytes_ += record->size;
    }
    dead_bytes_ -= blocks_[index].dead;
    blocks_[index] = Block();
    --num_blocks_;
}

}  // namespace fastload

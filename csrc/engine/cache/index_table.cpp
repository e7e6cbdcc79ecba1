#include "engine/cache/index_table.h"

#include <utility>

namespace fastload {

std::size_t IndexTable::find(const ContentKey& key, Span<std::uint8_t> buffer) const noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    const RecordMap::Record* const record = records_.find(key);
    return record == nullptr ? 0 : record->copy_to(buffer);
}

bool IndexTable::put(const ContentKey& key, std::uint32_t rank, ByteSpan record) noexcept {
    if (record.is_empty() || record.size() > kMaxRecordBytes) return false;
    const std::lock_guard<std::mutex> lock(mutex_);
    return records_.memory_bytes() + RecordMap::kMostAddedBytes <= max_bytes_ && records_.put(key, rank, record);
}

void IndexTable::remove(const ContentKey& key) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    records_.remove(key);
}

void IndexTable::clear() noexcept {
    RecordMap removed;  // destroyed without the lock
    const std::lock_guard<std::mutex> lock(mutex_);
    std::swap(records_, removed);
}

IndexTable::Counts IndexTable::counts() const noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    return {records_.size(), records_.record_bytes(), records_.memory_bytes()};
}

}  // namespace fastload

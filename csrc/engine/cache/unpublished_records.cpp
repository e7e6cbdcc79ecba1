#include "engine/cache/unpublished_records.h"

#include <new>
#include <utility>

namespace fastload {

// With the lock.
bool UnpublishedRecords::has_no_worse(const ContentKey& key, std::uint32_t rank) const noexcept {
    const auto known = records_.find(key.hash.low);
    return known != records_.end() && known->second.hash_high == key.hash.high && known->second.rank >= rank;
}

// Counts the bytes before the record is there, so that several threads together do not exceed the bound.
bool UnpublishedRecords::admit(std::size_t bytes) noexcept {
    const std::size_t before = waiting_bytes_.fetch_add(bytes, std::memory_order_relaxed);
    if (is_allowed(before, bytes)) return true;
    count_done(bytes);
    return false;
}

// With the lock. May throw std::bad_alloc, with nothing changed.
void UnpublishedRecords::add(const Waiting& record) {
    waiting_.push_back(record);
    try {
        records_[record.key.hash.low] = {record.key.hash.high, record.rank, record.bytes, {}};
    } catch (const std::bad_alloc&) {
        waiting_.pop_back();
        throw;
    }
    num_records_.store(records_.size(), std::memory_order_relaxed);
}

bool UnpublishedRecords::offer(const ContentKey& key, std::uint32_t rank, ByteSpan record) noexcept {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (has_no_worse(key, rank)) return true;
    }
    if (!admit(record.size())) return false;
    try {
        const auto bytes = std::make_shared<const std::vector<std::uint8_t>>(record.begin(), record.end());
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!has_no_worse(key, rank)) {
            add({key, rank, bytes});
            return true;
        }
    } catch (const std::bad_alloc&) {
        count_done(record.size());
        return false;
    }
    count_done(record.size());  // another thread was faster
    return true;
}

bool UnpublishedRecords::find(const ContentKey& key, Record* record) const noexcept {
    if (num_records_.load(std::memory_order_relaxed) == 0) return false;
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto known = records_.find(key.hash.low);
    if (known == records_.end() || known->second.hash_high != key.hash.high) return false;
    *record = known->second;
    return true;
}

std::vector<UnpublishedRecords::Waiting> UnpublishedRecords::take() noexcept {
    std::vector<Waiting> taken;
    const std::lock_guard<std::mutex> lock(mutex_);
    taken.swap(waiting_);
    return taken;
}

// Returns the end if the key has a better record by now.
UnpublishedRecords::Records::iterator UnpublishedRecords::that_of(const Waiting& record) noexcept {
    const auto known = records_.find(record.key.hash.low);
    return known != records_.end() && known->second.bytes == record.bytes ? known : records_.end();
}

void UnpublishedRecords::set_written(const Waiting& record, const Written& written) noexcept {
    count_done(record.bytes->size());
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto known = that_of(record);
    if (known == records_.end()) return;
    known->second.bytes.reset();
    known->second.written = written;
}

void UnpublishedRecords::drop(const Waiting& record) noexcept {
    count_done(record.bytes->size());
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto known = that_of(record);
    if (known != records_.end()) records_.erase(known);
    num_records_.store(records_.size(), std::memory_order_relaxed);
}

void UnpublishedRecords::forget_written() noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto record = records_.begin(); record != records_.end();) {
        record = record->second.bytes == nullptr ? records_.erase(record) : std::next(record);
    }
    num_records_.store(records_.size(), std::memory_order_relaxed);
}

}  // namespace fastload

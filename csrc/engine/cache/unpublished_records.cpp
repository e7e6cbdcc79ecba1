#include "engine/cache/unpublished_records.h"

#include <cstring>
#include <new>
#include <utility>

namespace fastload {

bool UnpublishedRecords::offer(const ContentKey& key, std::uint32_t rank, ByteSpan record) noexcept try {
    if (waiting_bytes() + record.size() > kMaxWaitingBytes) return false;
    const auto bytes = std::make_shared<const std::vector<std::uint8_t>>(record.begin(), record.end());
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto known = records_.find(key.hash.low);
    if (known != records_.end() && known->second.hash_high == key.hash.high && known->second.rank >= rank) return true;
    waiting_.push_back({key, rank, bytes});
    try {
        records_[key.hash.low] = {key.hash.high, rank, bytes, {}};
    } catch (const std::bad_alloc&) {
        waiting_.pop_back();
        throw;
    }
    num_records_.store(records_.size(), std::memory_order_relaxed);
    waiting_bytes_.fetch_add(record.size(), std::memory_order_relaxed);
    return true;
} catch (const std::bad_alloc&) {
    return false;
}

std::size_t UnpublishedRecords::find(const ContentKey& key, Span<std::uint8_t> buffer,
                                     Written* written) const noexcept {
    if (num_records_.load(std::memory_order_relaxed) == 0) return 0;
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto known = records_.find(key.hash.low);
    if (known == records_.end() || known->second.hash_high != key.hash.high) return 0;
    const Record& record = known->second;
    if (record.bytes == nullptr) {
        *written = record.written;
        return record.written.place.size;
    }
    const std::size_t size = record.bytes->size();
    if (size <= buffer.size()) std::memcpy(buffer.data(), record.bytes->data(), size);
    return size;
}

std::vector<UnpublishedRecords::Waiting> UnpublishedRecords::take() noexcept {
    std::vector<Waiting> taken;
    const std::lock_guard<std::mutex> lock(mutex_);
    taken.swap(waiting_);
    waiting_bytes_.store(0, std::memory_order_relaxed);
    return taken;
}

// End where the key has a better record by now.
UnpublishedRecords::Records::iterator UnpublishedRecords::that_of(const Waiting& record) noexcept {
    const auto known = records_.find(record.key.hash.low);
    return known != records_.end() && known->second.bytes == record.bytes ? known : records_.end();
}

void UnpublishedRecords::set_written(const Waiting& record, const Written& written) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto known = that_of(record);
    if (known == records_.end()) return;
    known->second.bytes.reset();
    known->second.written = written;
}

void UnpublishedRecords::drop(const Waiting& record) noexcept {
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

#include "engine/cache/index_table.h"

#include <atomic>
#include <memory>
#include <new>
#include <utility>

#include "engine/fork_guard.h"

namespace fastload {
namespace {

struct ProcessTable {
    explicit ProcessTable(std::size_t max_bytes) noexcept : table(max_bytes) {}

    bool is_of_parent() const noexcept { return generation != fork_generation(); }

    const std::uint32_t generation = fork_generation();
    IndexTable table;
};

std::atomic<std::size_t> process_max_bytes{std::size_t{512} << 20};
// Not a lock: a fork may find it held. Released with what was written to make the table, acquired by its users.
std::atomic<ProcessTable*> process_table{nullptr};

}  // namespace

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

bool set_process_index_bytes(std::size_t max_bytes) noexcept {
    const ProcessTable* known = process_table.load(std::memory_order_acquire);
    if (known != nullptr && !known->is_of_parent()) return false;
    process_max_bytes.store(max_bytes, std::memory_order_relaxed);
    return true;
}

IndexTable* process_index_table() noexcept {
    ProcessTable* known = process_table.load(std::memory_order_acquire);
    if (known != nullptr && !known->is_of_parent()) return &known->table;
    std::unique_ptr<ProcessTable> made(new (std::nothrow)
                                           ProcessTable(process_max_bytes.load(std::memory_order_relaxed)));
    if (made == nullptr) return nullptr;
    if (process_table.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel,
                                              std::memory_order_acquire)) {
        return &made.release()->table;
    }
    return &known->table;  // another thread was first
}

}  // namespace fastload

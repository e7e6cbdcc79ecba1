#include "engine/cache/process_index_table.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>

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

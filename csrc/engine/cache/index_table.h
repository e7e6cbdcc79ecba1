// Records of entropy indexes in the memory of one process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "base/content_hash.h"
#include "base/span.h"
#include "engine/cache/index_records.h"
#include "engine/cache/record_map.h"

namespace fastload {

// Thread-safe, but not for use in a process forked afterwards (Note [after fork]).
class IndexTable final : public IndexRecords {
  public:
    struct Counts {
        std::size_t records = 0;
        std::size_t record_bytes = 0;  // of their contents
        std::size_t memory_bytes = 0;  // `max_bytes` bounds it
    };

    // Takes memory as needed, at most `max_bytes`.
    explicit IndexTable(std::size_t max_bytes) noexcept : max_bytes_(max_bytes) {}

    std::size_t find(const ContentKey& key, Span<std::uint8_t> buffer) const noexcept override;
    bool put(const ContentKey& key, std::uint32_t rank, ByteSpan record) noexcept override;
    void remove(const ContentKey& key) noexcept override;
    // Removes all records.
    void clear() noexcept;

    Counts counts() const noexcept;
    std::uint64_t max_bytes() const noexcept override { return max_bytes_; }
    std::uint64_t used_bytes() const noexcept override { return counts().memory_bytes; }
    std::uint64_t overhead_bytes() const noexcept override { return RecordMap::kOverheadBytes; }

  private:
    const std::size_t max_bytes_;
    mutable std::mutex mutex_;
    RecordMap records_;
};

// All loaders of a process share one table: keys are contents, so it does not matter whose they are.

// Sets how large the process's table may become; the default is 512 MiB. Returns false, and changes nothing, if this
// process has used its table already. A forked child begins with the parent's limit. Thread-safe.
bool set_process_index_bytes(std::size_t max_bytes) noexcept;

// Returns the table, which is made at first use and lives until the process ends, or nullptr if there is no memory for
// it. A forked child has an empty table of its own: it leaks its copy of the parent's and touches none of its locks,
// see Note [after fork]. Thread-safe.
IndexTable* process_index_table() noexcept;

}  // namespace fastload

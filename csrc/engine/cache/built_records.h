// The coefficients or pixels in a store, as one reading process sees them.
#pragma once

#include <cstdint>
#include <memory>

#include "base/content_hash.h"
#include "base/unique_fd.h"
#include "engine/cache/opened_records.h"
#include "engine/cache/store_place.h"
#include "engine/cache/store_reads.h"
#include "engine/cache/stored_record.h"

namespace fastload {

struct BuiltCounters {
    std::uint64_t records = 0;       // that can be found; a record in several files counts in each
    std::uint64_t memory_bytes = 0;  // for the places of the records
    std::uint64_t bytes_read = 0;
    std::uint64_t damaged = 0;  // records that could not be read, or have another key than their directory says
    int read_error = 0;         // the system error after which no record is looked for, or 0
};

// The files that were published when it was opened, see Note [kinds of records]. They are opened read-only and never
// change. Thread-safe.
class BuiltRecords {
  public:
    // The caller has checked that the owner of `folder` can be trusted. May throw std::bad_alloc.
    BuiltRecords(UniqueFd folder, std::unique_ptr<const HashKey> key, RecordKind kind);
    BuiltRecords(const BuiltRecords&) = delete;  // found records point to it
    BuiltRecords& operator=(const BuiltRecords&) = delete;

    // Opens the files. Returns 0 or the system's error. Call it once, before anything else. May throw std::bad_alloc.
    int open();

    // Returns whether the folder still has exactly the files that open() found, and none of them may open now. May
    // throw std::bad_alloc.
    bool is_current() const;

    // Finds the record of the key with the highest rank, without an allocation or a system call. Returns false if there
    // is none. `record` can be read as long as this object lives.
    bool find(const ContentKey& key, StoredRecord* record) const noexcept;

    const HashKey& key() const noexcept { return *key_; }
    RecordKind kind() const noexcept { return kind_; }
    // Returns the place for a writer of `max_bytes`; it is valid as long as this object lives.
    StorePlace place(std::uint64_t max_bytes = 0) const noexcept {
        return {folder_.get(), kind_, key_.get(), max_bytes};
    }
    BuiltCounters counters() const noexcept;

  private:
    const UniqueFd folder_;
    const std::unique_ptr<const HashKey> key_;
    const RecordKind kind_;
    RecordSnapshot files_;  // as open() found them
    mutable StoreReads reads_;
};

}  // namespace fastload

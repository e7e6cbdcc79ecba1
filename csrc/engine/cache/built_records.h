// The coefficients or pixels in a store, as one reading process sees them.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/content_hash.h"
#include "base/unique_fd.h"
#include "engine/cache/opened_records.h"
#include "engine/cache/record_kinds.h"
#include "engine/cache/stored_record.h"
#include "io/records/record_folder.h"

namespace fastload {

// The files that were published when it was opened, see Note [kinds of records]. They are opened read-only and never
// change. Thread-safe.
class BuiltRecords {
  public:
    // The caller has checked that the owner of `folder` can be trusted. May throw std::bad_alloc.
    BuiltRecords(UniqueFd folder, std::unique_ptr<const HashKey> key, RecordKind kind)
        : folder_(std::move(folder)), key_(std::move(key)), kind_(kind) {}

    // Opens the files. Returns 0 or the system's error. Call it once, before anything else. May throw std::bad_alloc.
    int open() { return look_at_folder(place(), {}, &files_); }

    // Returns whether the folder still has exactly the files that open() found, and none of them may open now. May
    // throw std::bad_alloc.
    bool is_current() const {
        FolderFiles files;
        return list_record_files(folder_.get(), kind_, &files) != 0 ||
               (files_.is_settled && files.complete == files_.names);
    }

    // Finds the record of the key with the highest rank, without an allocation or a system call. Returns false if there
    // is none. `record` can be read as long as this object lives.
    bool find(const ContentKey& key, StoredRecord* record) const noexcept {
        return find_stored(files_, key, max_record_bytes(kind_), &reads_, record);
    }

    const HashKey& key() const noexcept { return *key_; }
    RecordKind kind() const noexcept { return kind_; }
    // Returns the place for a writer of `max_bytes`; it is valid as long as this object lives.
    StorePlace place(std::uint64_t max_bytes = 0) const noexcept {
        return {folder_.get(), kind_, key_.get(), max_bytes};
    }
    ReadCounters counters() const noexcept { return read_counters(files_, reads_); }

  private:
    const UniqueFd folder_;
    const std::unique_ptr<const HashKey> key_;
    const RecordKind kind_;
    RecordSnapshot files_;  // as open() found them
    mutable StoreReads reads_;
};

}  // namespace fastload

// A record that was found in a store, to be read in parts.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/content_hash.h"
#include "base/span.h"
#include "engine/cache/opened_records.h"
#include "engine/cache/store_reads.h"
#include "io/records/record_file.h"

namespace fastload {

// Keeps the record's file open. Not thread-safe. Can be read as long as the store lives; may be destroyed later.
class StoredRecord {
  public:
    StoredRecord() noexcept = default;  // none
    StoredRecord(const ContentKey& key, const RecordPlace& place, std::shared_ptr<const RecordFile> file,
                 StoreReads* reads) noexcept
        : size_(place.size), key_(key), offset_(place.offset), file_(std::move(file)), reads_(reads) {}

    // The size in bytes, as the store's directory says; 0 if there is no record.
    std::uint32_t size() const noexcept { return size_; }

    // Fills `buffer` from the record's byte `offset` on. The first call also reads the head before the record (in the
    // same system call if `offset` is 0) and compares size and key. Returns false if the part does not lie in the
    // record, if it cannot be read, or if the head is of another record; the store counts the latter two. Only the head
    // is compared: the record's own checks tell whether its bytes are as they were written.
    bool read(std::uint64_t offset, Span<std::uint8_t> buffer) noexcept;

  private:
    bool read_from_file(std::uint64_t offset, Span<std::uint8_t> buffer, int* error) noexcept;
    bool read_head(Span<std::uint8_t> buffer, int* error) noexcept;

    std::uint32_t size_ = 0;
    bool is_head_right_ = false;
    ContentKey key_;
    std::uint64_t offset_ = 0;  // in the file
    std::shared_ptr<const RecordFile> file_;
    StoreReads* reads_ = nullptr;
};

// Finds the key's record of the highest rank, without a system call. Returns false if there is none, or if reads have
// ended.
bool find_stored(const RecordSnapshot& files, const ContentKey& key, std::uint32_t max_record_bytes, StoreReads* reads,
                 StoredRecord* record) noexcept;

}  // namespace fastload

// A record that a store has found, to be read in parts.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/content_hash.h"
#include "base/span.h"
#include "engine/cache/store_reads.h"
#include "io/records/record_file.h"

namespace fastload {

// Keeps the record's file open, or its bytes in memory while they wait to be written. Not thread-safe. To be read from
// as long as the store is there; it may be destroyed later.
class StoredRecord {
  public:
    StoredRecord() noexcept = default;  // none
    explicit StoredRecord(std::shared_ptr<const std::vector<std::uint8_t>> bytes) noexcept
        : size_(static_cast<std::uint32_t>(bytes->size())), bytes_(std::move(bytes)) {}
    StoredRecord(const ContentKey& key, const RecordPlace& place, std::shared_ptr<const RecordFile> file,
                 StoreReads* reads) noexcept
        : size_(place.size), key_(key), offset_(place.offset), file_(std::move(file)), reads_(reads) {}

    // In bytes, as the store's directory says; 0: none.
    std::uint32_t size() const noexcept { return size_; }

    // Fills `buffer` from the record's byte `offset` on. The first call reads the head that lies before the record as
    // well, by the same call of the system where `offset` is 0, and compares size and key. False where the part is not
    // inside of the record, where it cannot be read, and where that head is of another record; the latter two are
    // counted by the store. Nothing but the head is compared: whether the bytes are those that were written the
    // record's own checks tell.
    bool read(std::uint64_t offset, Span<std::uint8_t> buffer) noexcept;

  private:
    bool read_from_file(std::uint64_t offset, Span<std::uint8_t> buffer, int* error) noexcept;
    bool read_head(Span<std::uint8_t> buffer, int* error) noexcept;

    std::uint32_t size_ = 0;
    bool is_head_right_ = false;
    ContentKey key_;
    std::uint64_t offset_ = 0;  // in the file
    std::shared_ptr<const RecordFile> file_;
    std::shared_ptr<const std::vector<std::uint8_t>> bytes_;
    StoreReads* reads_ = nullptr;
};

}  // namespace fastload

// A record that was found in a store, to be read in parts.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/content_hash.h"
#include "base/span.h"
#include "codec/jpeg/record_reader.h"
#include "engine/cache/opened_records.h"
#include "io/records/record_file.h"

namespace fastload {

// Counts reads from a store. Thread-safe.
class StoreReads {
  public:
    void count_read(std::uint64_t bytes) noexcept {
        failures_in_a_row_.store(0, std::memory_order_relaxed);
        bytes_.fetch_add(bytes, std::memory_order_relaxed);
    }
    // `error` is the system's, or 0 if other data lies there.
    void count_failure(int error) noexcept {
        damaged_.fetch_add(1, std::memory_order_relaxed);
        if (error != 0 && failures_in_a_row_.fetch_add(1, std::memory_order_relaxed) + 1 == kManyFailures) {
            error_.store(error, std::memory_order_relaxed);
        }
    }

    // The system error after which nothing is read any more, because the system refused too often; 0 if there is none.
    int error() const noexcept { return error_.load(std::memory_order_relaxed); }
    std::uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }
    std::uint64_t damaged() const noexcept { return damaged_.load(std::memory_order_relaxed); }

  private:
    static constexpr std::uint32_t kManyFailures = 100;

    std::atomic<std::uint32_t> failures_in_a_row_{0};
    std::atomic<int> error_{0};
    std::atomic<std::uint64_t> bytes_{0};
    std::atomic<std::uint64_t> damaged_{0};
};

// Keeps the record's file open. Not thread-safe. Can be read as long as the store lives; may be destroyed later.
class StoredRecord final : public jpeg::RecordBytes {
  public:
    StoredRecord() noexcept = default;  // none
    StoredRecord(const ContentKey& key, const RecordPlace& place, std::shared_ptr<const RecordFile> file,
                 StoreReads* reads) noexcept
        : size_(place.size), key_(key), offset_(place.offset), file_(std::move(file)), reads_(reads) {}

    // The size in bytes, as the store's directory says; 0 if there is no record.
    std::uint64_t size() const noexcept override { return size_; }

    // Fills `buffer` from the record's byte `offset` on. The first call also reads the head before the record (in the
    // same system call if `offset` is 0) and compares size and key. Returns false if the part does not lie in the
    // record, if it cannot be read, or if the head is of another record; the store counts the latter two. Only the head
    // is compared: the record's own checks tell whether its bytes are as they were written.
    bool read(std::uint64_t offset, Span<std::uint8_t> buffer) noexcept override;

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

struct ReadCounters {
    std::uint64_t records = 0;       // that can be found; a record in several files counts in each
    std::uint64_t memory_bytes = 0;  // for the places of the records
    std::uint64_t bytes_read = 0;
    std::uint64_t damaged = 0;  // records that could not be read, or have another key than their directory says
    int read_error = 0;         // the system error after which no record is looked for, or 0
};

ReadCounters read_counters(const RecordSnapshot& files, const StoreReads& reads) noexcept;

// Finds the key's record of the highest rank, without a system call. Returns false if there is none, or if reads have
// ended.
bool find_stored(const RecordSnapshot& files, const ContentKey& key, std::uint32_t max_record_bytes, StoreReads* reads,
                 StoredRecord* record) noexcept;

}  // namespace fastload

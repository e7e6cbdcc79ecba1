// The records of this process that no directory on disk names yet: waiting to be written, or written.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/content_hash.h"
#include "base/span.h"
#include "io/records/record_file.h"

namespace fastload {

// Thread-safe.
class UnpublishedRecords {
  public:
    // The bytes live until their last holder is done.
    using SharedBytes = std::shared_ptr<const std::vector<std::uint8_t>>;

    // A record that waits to be written.
    struct Waiting {
        ContentKey key;
        std::uint32_t rank = 0;
        SharedBytes bytes;
    };
    // The place of a written record.
    struct Written {
        std::shared_ptr<const RecordFile> file;
        RecordPlace place;
    };
    struct Record {
        std::uint64_t hash_high = 0;
        std::uint32_t rank = 0;
        SharedBytes bytes;  // null once it is written
        Written written;
    };

    // Keeps at most `max_waiting_bytes` waiting; a record beyond that is not kept this time.
    explicit UnpublishedRecords(std::size_t max_waiting_bytes) noexcept : max_waiting_bytes_(max_waiting_bytes) {}

    // Copies the record, without a lock. Returns false if there is no room or no memory. Returns true and copies
    // nothing if a record of at least this rank is here.
    bool offer(const ContentKey& key, std::uint32_t rank, ByteSpan record) noexcept;

    // Finds the best record of the key. Returns false if there is none.
    bool find(const ContentKey& key, Record* record) const noexcept;

    // The bytes of records that are not written yet, including those that were taken.
    std::size_t waiting_bytes() const noexcept { return waiting_bytes_.load(std::memory_order_relaxed); }

    // Takes all waiting records, in the order they came; find() still finds them. Call one of the next two for each
    // record.
    std::vector<Waiting> take() noexcept;
    void set_written(const Waiting& record, const Written& written) noexcept;
    void drop(const Waiting& record) noexcept;  // if it cannot be written
    // Forgets written records, which are found elsewhere from now on.
    void forget_written() noexcept;

  private:
    using Records = std::unordered_map<std::uint64_t, Record>;

    bool is_allowed(std::size_t waiting, std::size_t more) const noexcept {
        return waiting <= max_waiting_bytes_ && more <= max_waiting_bytes_ - waiting;
    }
    bool has_no_worse(const ContentKey& key, std::uint32_t rank) const noexcept;
    bool admit(std::size_t bytes) noexcept;
    void add(const Waiting& record);
    void count_done(std::size_t bytes) noexcept { waiting_bytes_.fetch_sub(bytes, std::memory_order_relaxed); }
    Records::iterator that_of(const Waiting& record) noexcept;

    const std::size_t max_waiting_bytes_;
    mutable std::mutex mutex_;
    Records records_;  // by the lower half of the hash
    std::vector<Waiting> waiting_;
    // Lets readers skip the lock if there is no record.
    std::atomic<std::size_t> num_records_{0};
    std::atomic<std::size_t> waiting_bytes_{0};
};

}  // namespace fastload

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
    // A record that waits. Its bytes are there until the last who holds them is done.
    struct Waiting {
        ContentKey key;
        std::uint32_t rank = 0;
        std::shared_ptr<const std::vector<std::uint8_t>> bytes;
    };
    // Where a record was written.
    struct Written {
        std::shared_ptr<const RecordFile> file;
        RecordPlace place;
    };

    // More than that does not wait: what comes is not kept this time.
    static constexpr std::size_t kMaxWaitingBytes = std::size_t{64} << 20;

    // False where there is no room or no memory. A record no better than what is here needs none.
    bool offer(const ContentKey& key, std::uint32_t rank, ByteSpan record) noexcept;

    // The size of the key's record; 0 where there is none. A waiting one is copied to the front of `buffer` where that
    // is large enough; of another one *written says where it is, and the caller reads it.
    std::size_t find(const ContentKey& key, Span<std::uint8_t> buffer, Written* written) const noexcept;

    std::size_t waiting_bytes() const noexcept { return waiting_bytes_.load(std::memory_order_relaxed); }

    // All that waits, in the order it came. It is found as before.
    std::vector<Waiting> take() noexcept;
    void set_written(const Waiting& record, const Written& written) noexcept;
    void drop(const Waiting& record) noexcept;  // it cannot be written
    // Those written are found elsewhere from now on.
    void forget_written() noexcept;

  private:
    struct Record {
        std::uint64_t hash_high = 0;
        std::uint32_t rank = 0;
        std::shared_ptr<const std::vector<std::uint8_t>> bytes;  // null once it is written
        Written written;
    };
    using Records = std::unordered_map<std::uint64_t, Record>;

    Records::iterator that_of(const Waiting& record) noexcept;

    mutable std::mutex mutex_;
    Records records_;  // by the lower half of the hash
    std::vector<Waiting> waiting_;
    // Nobody needs the lock where there is nothing.
    std::atomic<std::size_t> num_records_{0};
    std::atomic<std::size_t> waiting_bytes_{0};
};

}  // namespace fastload

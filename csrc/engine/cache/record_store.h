// The entropy indexes in a store on disk that several processes share, as one of them sees it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_set>

#include "base/content_hash.h"
#include "base/unique_fd.h"
#include "engine/cache/index_records.h"
#include "engine/cache/opened_records.h"
#include "engine/cache/record_appender.h"
#include "engine/cache/record_kinds.h"
#include "engine/cache/record_map.h"
#include "engine/cache/stored_record.h"
#include "engine/fork_guard.h"

namespace fastload {

struct StoreCounters : ReadCounters {
    std::uint64_t bytes_written = 0;      // by this process
    std::uint64_t records_published = 0;  // by this process
    int write_error = 0;                  // the reason why nothing is kept any more: a system error, or kStoreIsFull
};

// Note [record store]
// Look-ups use a snapshot of the directories on disk and the records of this process that are not published yet; no
// lock is held during a look-up on disk. put() only leaves a copy. One thread, in which the owner calls run(), writes
// and publishes these records (8 MiB of them at once, after 1, 2, 4, ... and then every 60 s, at the end of an epoch,
// and on close()) and looks for records that other processes have published. Nothing is ever evicted: once the store's
// bytes are used up, nothing more is kept. A process that dies loses its unpublished records; the next process goes on
// with its file, so that there are as many files as processes have written at once, and those that are full.

// Thread-safe, but not for use in a process forked since, see close_after_fork().
class RecordStore final : public IndexRecords {
  public:
    // The caller has checked that the owner of `folder` can be trusted and, if `may_write`, that it can be written to.
    // `max_bytes` limits all files in it, of every kind. `max_file_bytes` is 0 for the kind's own limit. May throw
    // std::bad_alloc.
    RecordStore(UniqueFd folder, std::unique_ptr<const HashKey> key, std::uint64_t max_bytes, bool may_write,
                std::uint64_t max_file_bytes = 0);

    const HashKey& key() const noexcept { return *key_; }
    const StorePlace& place() const noexcept { return place_; }

    // Looks at the files on disk. Returns 0 or the system's error. Call it before anything else. May throw
    // std::bad_alloc.
    int open();
    // Writes and publishes until close(), and then publishes the rest. For one thread at a time.
    void run() noexcept;
    void close() noexcept;
    // Asks run() and does not wait. Call the first one at the beginning of an epoch: run() looks for records of other
    // processes, and tries again if there was no room or no memory. Call the second one at its end: run() publishes
    // what was kept.
    void begin_epoch() noexcept;
    void end_epoch() noexcept;
    // Returns when everything kept before is published, or cannot be. Returns false after the timeout.
    bool flush(std::chrono::milliseconds timeout) noexcept;
    // Stops holding the parent's lock in a process forked since; may be called more than once. The object must be
    // leaked, see Note [after fork]; the four functions above do nothing there.
    void close_after_fork() noexcept { appender_.close_descriptor(); }

    // Finds records of this process at once, and records that others have published after the next look at the folder.
    std::size_t find(const ContentKey& key, Span<std::uint8_t> buffer) const noexcept override;
    // Copies the record for the thread of run(), and does not wait for it. Returns false if it is not kept this time.
    bool put(const ContentKey& key, std::uint32_t rank, ByteSpan record) noexcept override;
    void remove(const ContentKey& key) noexcept override;
    std::uint64_t max_bytes() const noexcept override { return place_.max_bytes; }
    std::uint64_t used_bytes() const noexcept override { return snapshot()->used_bytes; }
    std::uint64_t overhead_bytes() const noexcept override;

    StoreCounters counters() const noexcept;

  private:
    using Clock = std::chrono::steady_clock;

    // The work that run() has been asked for.
    struct Tasks {
        bool closes = false;
        bool refreshes = false;
        bool publishes = false;
        std::uint64_t round = 0;  // the last one that was asked for
    };

    bool is_forked() const noexcept { return generation_ != fork_generation(); }
    std::uint64_t ask(bool closes, bool refreshes, bool publishes) noexcept;  // returns the round
    Tasks wait_for_tasks();
    void do_tasks(const Tasks& tasks);
    bool is_publishing_due() noexcept;
    void publish() noexcept;
    int write(const RecordMap& records);
    int refresh();
    void remove_what_is_left();
    void stop_keeping(int error) noexcept;
    void replace_in_snapshot(std::shared_ptr<const OpenedRecords> file);
    std::shared_ptr<const RecordSnapshot> snapshot() const noexcept;
    void set_snapshot(std::shared_ptr<const RecordSnapshot> snapshot) noexcept;

    const std::uint32_t generation_ = fork_generation();
    const UniqueFd folder_;
    const std::unique_ptr<const HashKey> key_;
    const StorePlace place_;
    const bool may_write_;

    // Used only by open() and then by the thread of run().
    RecordAppender appender_;
    static constexpr std::int64_t kUnknownTime = -1;
    std::int64_t folder_time_ = kUnknownTime;  // of the folder when it was last listed
    Clock::time_point next_refresh_;
    Clock::time_point next_publishing_;
    std::chrono::seconds publishing_interval_{1};

    mutable std::mutex mutex_;  // guards the next members
    // Its pointer is read and set with the mutex. Not std::atomic_load(): all stores of a process share its locks, and
    // a forked child may find them taken for ever.
    std::shared_ptr<const RecordSnapshot> snapshot_;
    RecordMap waiting_;
    RecordMap publishing_;                       // changed only by the thread of run()
    std::unordered_set<std::uint64_t> removed_;  // lower halves of hashes
    std::condition_variable asked_;
    std::condition_variable done_;
    Tasks tasks_;
    std::uint64_t rounds_done_ = 0;

    std::atomic<bool> keeps_;
    std::atomic<int> write_error_{0};
    std::atomic<std::uint64_t> bytes_written_{0};
    std::atomic<std::uint64_t> records_published_{0};
    mutable StoreReads reads_;
};

}  // namespace fastload

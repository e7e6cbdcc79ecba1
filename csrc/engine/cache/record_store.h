// The entropy indexes in a store on disk that several processes use, as one of them sees it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>

#include "base/content_hash.h"
#include "base/unique_fd.h"
#include "engine/cache/index_records.h"
#include "engine/cache/opened_records.h"
#include "engine/cache/record_appender.h"
#include "engine/cache/record_kinds.h"
#include "engine/cache/store_reads.h"
#include "engine/cache/stored_record.h"
#include "engine/cache/unpublished_records.h"
#include "engine/fork_guard.h"

namespace fastload {

struct StoreCounters {
    std::uint64_t records = 0;       // that can be found; one that several files have counts in each
    std::uint64_t memory_bytes = 0;  // of where they lie
    std::uint64_t bytes_read = 0;
    std::uint64_t bytes_written = 0;  // by this process
    std::uint64_t damaged = 0;        // records that could not be read, or were not of the key their directory says
    int write_error = 0;              // why nothing is kept any more: of the system, or kStoreIsFull
    int read_error = 0;               // why nothing is looked for any more
};

// Note [record store]
// Look-ups go through a snapshot of the directories on disk and through the records of this process that are not
// published yet; no lock is held during a look-up on disk. put() only leaves a record: one thread, in which the owner
// calls run(), writes it, publishes what is written (after 1, 2, 4, ... and then each 60 s, at an epoch's end and at
// the end of all) and looks for what others have published. Nothing is ever evicted: once the store's bytes are used
// up, nothing more is kept. A process that dies loses what it has not published; the next process cuts its files and
// removes what is left of them. Closed files are merged.

// Thread-safe, but not to be used in a process forked since, see close_after_fork().
class RecordStore final : public IndexRecords {
  public:
    // `folder` has been checked: its owner can be trusted, and it can be written to if `may_write`. `max_bytes` are of
    // all files in it, of whatever kind. `max_file_bytes`: 0 for the kind's own. May throw std::bad_alloc.
    RecordStore(UniqueFd folder, std::unique_ptr<const HashKey> key, std::uint64_t max_bytes, bool may_write,
                std::uint64_t max_file_bytes = 0);
    RecordStore(const RecordStore&) = delete;  // threads wait in it
    RecordStore& operator=(const RecordStore&) = delete;

    const HashKey& key() const noexcept { return *key_; }
    const StorePlace& place() const noexcept { return place_; }

    // Looks at what is on disk. 0, or the system's error. Call it before anything else. May throw std::bad_alloc.
    int open();
    // Writes and publishes until close(); then all is published. One thread at a time.
    void run() noexcept;
    void close() noexcept;
    // Does not wait: run() comes to it. The first at an epoch's beginning: what others have kept is looked for, and
    // where there was no room, or no memory, is tried again. The second at its end: what was kept is published.
    void begin_epoch() noexcept;
    void end_epoch() noexcept;
    // Returns when all that was kept before is published, or cannot be; false after the timeout.
    bool flush(std::chrono::milliseconds timeout) noexcept;
    // For a process forked since, maybe more than once: the parent's lock is not held for it any more. The object must
    // be leaked, see Note [after fork]; the four functions above do nothing there.
    void close_after_fork() noexcept { appender_.close_descriptor(); }

    // The record of the key that has the highest rank. Records of this process are found at once, those that others
    // have published after the next look at the folder.
    std::size_t find(const ContentKey& key, Span<std::uint8_t> buffer) const noexcept override;
    // Copies the record, under no lock, for the thread of run(), and waits for nothing. False: it is not kept this
    // time.
    bool put(const ContentKey& key, std::uint32_t rank, ByteSpan record) noexcept override;
    void remove(const ContentKey& key) noexcept override;
    std::uint64_t max_bytes() const noexcept override { return room_for(place_.kind, place_.max_bytes, 0); }
    std::uint64_t used_bytes() const noexcept override { return used_bytes_.load(std::memory_order_relaxed); }
    std::uint64_t overhead_bytes() const noexcept override;

    StoreCounters counters() const noexcept;

  private:
    using Clock = std::chrono::steady_clock;

    // The work that run() is asked for.
    struct Tasks {
        bool closes = false;
        bool refreshes = false;
        bool publishes = false;
        std::uint64_t round = 0;  // that was asked for so far
    };

    bool find_record(const ContentKey& key, StoredRecord* record) const noexcept;
    bool is_forked() const noexcept { return generation_ != fork_generation(); }
    void ask(bool closes, bool refreshes, bool publishes) noexcept;
    Tasks wait_for_tasks();
    void do_tasks(const Tasks& tasks);
    void write_waiting();
    void write(const UnpublishedRecords::Waiting& record);
    void publish();
    void refresh();
    void tidy();
    void remove_what_is_left();
    void stop_keeping(int error) noexcept;
    void replace_in_snapshot(std::shared_ptr<const OpenedRecords> file);
    std::shared_ptr<const RecordSnapshot> snapshot() const noexcept;
    void set_snapshot(std::shared_ptr<const RecordSnapshot> snapshot) noexcept;

    bool is_removed(const ContentKey& key) const noexcept;

    const std::uint32_t generation_ = fork_generation();
    const UniqueFd folder_;
    const std::unique_ptr<const HashKey> key_;
    const StorePlace place_;
    const bool may_write_;

    UnpublishedRecords unpublished_;
    // Held for a moment, while the pointer is taken or set. Not std::atomic_load(), whose locks all stores of a process
    // share: a forked child may find them taken for ever.
    mutable std::mutex snapshot_mutex_;
    std::shared_ptr<const RecordSnapshot> snapshot_;

    // Used by open() and then by the thread of run() alone.
    RecordAppender appender_;
    static constexpr std::int64_t kUnknownTime = -1;
    std::int64_t folder_time_ = kUnknownTime;  // of the folder as it was last listed
    Clock::time_point next_refresh_;
    Clock::time_point next_publishing_;
    std::chrono::seconds publishing_interval_{1};

    std::mutex tasks_mutex_;  // of the tasks and of the rounds done
    std::condition_variable asked_;
    std::condition_variable done_;
    Tasks tasks_;
    std::uint64_t rounds_done_ = 0;

    mutable std::mutex removed_mutex_;
    std::unordered_set<std::uint64_t> removed_;  // lower halves of hashes
    std::atomic<bool> has_removed_{false};

    std::atomic<bool> keeps_;
    std::atomic<int> write_error_{0};
    std::atomic<std::uint64_t> used_bytes_{0};
    std::atomic<std::uint64_t> bytes_written_{0};
    mutable StoreReads reads_;
};

}  // namespace fastload

// What a loader keeps of the images it decodes by the paths of their files: coefficients, or pixels.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/content_hash.h"
#include "base/record_stamp.h"
#include "base/span.h"
#include "engine/cache/file_system_kind.h"
#include "engine/cache/hit_pace.h"
#include "engine/cache/record_store.h"
#include "engine/cache/stored_record.h"
#include "engine/fork_guard.h"
#include "io/file_facts.h"
#include "io/working_directory.h"

namespace fastload {

// Note [believed records]
// A record is looked for by its file's absolute path, as it is written, and by what was done to the image. It is
// believed where the file has the facts now that it had when it was read: size, both times and inode. So a change by
// writing, cutting, renaming or restoring is noticed, whatever times somebody sets, since nobody sets a ctime. Not
// admitted are files whose facts may stay the same through a change: are_settled(), and FUSE, where a program says what
// it likes. With Validation::kContent the file is read on each load, and its bytes must be those that the record was
// made of.
//
// One hit of many is decoded plainly as well, see is_next_checked(), by the reference decoder where native code has no
// pixels. Where they differ, the plain ones are delivered and nothing is believed any more in this process.

// What became of the images for which a record was looked for.
struct FileRecordCounters {
    std::uint64_t hits = 0;
    std::uint64_t misses = 0;      // of those below as well
    std::uint64_t stale = 0;       // records of other contents, as far as is known
    std::uint64_t damaged = 0;     // records that could not be read, or whose checks did not hold
    std::uint64_t kept = 0;        // new ones
    std::uint64_t dropped = 0;     // for which there was no room
    std::uint64_t checks = 0;      // hits that were decoded plainly as well
    std::uint64_t mismatches = 0;  // of these, such with other pixels
};

// Of a file whose record is looked for.
struct FileVersion {
    ContentKey key;  // of its path
    FileFacts facts;
};

// Of a file that somebody has opened and read.
struct OpenedVersion {
    FileVersion version;
    std::int64_t opened_ns = 0;
};

// The same with what its record is to say of it.
struct ReadVersion {
    OpenedVersion opened;
    RecordStamp stamp = {};
};

enum class Validation : std::uint8_t {
    kStat,     // by the file's facts
    kContent,  // by its bytes
    kTrust     // by its facts, FUSE or not
};

// What stands for what was done to an image before it was kept; all 0: nothing.
using StepsHash = std::array<std::uint8_t, 16>;

// The path of a file that is named in `directory`, or the thread's current one if that is null: absolute, as it is
// written. Empty where it has none, or without memory.
std::string absolute_path(ByteSpan path, const WorkingDirectory* directory) noexcept;

// Whether all checks of the record with this key hold, which is one of coefficients or of pixels.
bool is_whole_file_record(RecordKind kind, const HashKey& secret, const ContentKey& key, ByteSpan record) noexcept;

// Thread-safe.
class FileRecordCache {
  public:
    // One hit in `check_interval` is checked; 0: none. `clock_ahead_ns`: what the system's clock is behind; for tests.
    FileRecordCache(std::shared_ptr<RecordStore> store, Validation validation, std::uint32_t check_interval,
                    std::int64_t clock_ahead_ns = 0) noexcept
        : store_(std::move(store)),
          validation_(validation),
          check_interval_(check_interval),
          clock_ahead_ns_(clock_ahead_ns) {}

    // False once a check has failed, and in a process forked since.
    bool is_on() const noexcept {
        return !has_failed_.load(std::memory_order_relaxed) && generation_ == fork_generation();
    }
    // How long images take by their records and by their files. While the former are slower they are not looked for.
    HitPace& pace() noexcept { return pace_; }
    const HitPace& pace() const noexcept { return pace_; }
    bool checks_contents() const noexcept { return validation_ == Validation::kContent; }
    RecordKind kind() const noexcept { return store_->place().kind; }
    const HashKey& key() const noexcept { return store_->key(); }
    std::uint64_t salt_of(const FileVersion& file) const noexcept { return file.key.hash.high; }

    // False where nothing is looked for, and where the path cannot be made an absolute one.
    bool find_key(ByteSpan path, const WorkingDirectory* directory, const StepsHash& steps,
                  ContentKey* key) const noexcept;

    // The facts of the file at `path`, by which a record of it is believed. False where none may be.
    bool find_facts(ByteSpan path, const WorkingDirectory* directory, FileFacts* facts) noexcept;

    // Of a file that was opened at `opened_ns` by this path, before it is read. False where it has no record of
    // coefficients.
    bool find_opened(int descriptor, ByteSpan path, std::int64_t opened_ns, OpenedVersion* opened) noexcept;

    bool find(const FileVersion& file, StoredRecord* record) const noexcept {
        return store_->find_record(file.key, record);
    }
    // Whether a file that was opened at `opened_ns` may have a record: are_settled().
    bool is_settled(const FileVersion& file, std::int64_t opened_ns) const noexcept;
    // Whether one of `record_bytes` is to be made then.
    bool wants(const FileVersion& file, std::int64_t opened_ns, std::size_t record_bytes) const noexcept;
    // False where there is no room.
    bool put(const FileVersion& file, ByteSpan record) noexcept;

    RecordStamp stamp_of(const FileVersion& file, ByteSpan contents) const noexcept;
    // Whether the record with this stamp is of the file as it is. `contents` matter where they are checked.
    bool is_of(const RecordStamp& stamp, const FileVersion& file, ByteSpan contents) const noexcept;

    // Whether this hit is checked. Of each `check_interval` hits in a row one is, whatever files they are of: another
    // one in each of the intervals and in each process, so that no file is left out for good.
    bool is_next_checked() noexcept;

    enum class Outcome : std::uint8_t { kHit, kMiss, kStale, kDamaged };
    // A damaged one is not looked for again.
    void count(const FileVersion& file, Outcome outcome) noexcept;
    // Of the image at `path`, which may be empty: not known.
    void count_check(bool is_right, ByteSpan path, const WorkingDirectory* directory) noexcept;
    FileRecordCounters counters() const noexcept;
    // That of the first image whose check has failed, an absolute one. Empty where there is none or it is not known.
    std::string mismatched_path() const;

  private:
    const std::shared_ptr<RecordStore> store_;
    const Validation validation_;
    FileSystemKinds file_systems_;
    HitPace pace_;
    const std::uint32_t check_interval_;
    const std::int64_t clock_ahead_ns_;
    const std::uint64_t first_interval_ = static_cast<std::uint64_t>(system_time_ns());
    const std::uint32_t generation_ = fork_generation();
    std::atomic<bool> has_failed_{false};
    std::atomic<std::uint64_t> outcomes_[4] = {};
    std::atomic<std::uint64_t> kept_{0};
    std::atomic<std::uint64_t> dropped_{0};
    std::atomic<std::uint64_t> hits_to_check_{0};
    std::atomic<std::uint64_t> checks_{0};
    std::atomic<std::uint64_t> mismatches_{0};
    mutable std::mutex mutex_;
    std::string mismatched_path_;  // under the mutex
};

}  // namespace fastload

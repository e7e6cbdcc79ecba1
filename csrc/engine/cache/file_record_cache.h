// The coefficients or pixels of images, as a loader finds them by the paths of files.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/content_hash.h"
#include "base/span.h"
#include "engine/cache/built_records.h"
#include "engine/cache/file_version.h"
#include "engine/cache/stored_record.h"
#include "engine/fork_guard.h"
#include "io/file_facts.h"
#include "io/working_directory.h"

namespace fastload {

// Note [believed records]
// A record is looked for by its file's absolute path, as it is written, and by the steps that were applied to the
// image. It is believed if the file has the same metadata as when it was read: size, both times and inode. So a change
// by writing, truncating, renaming or restoring is noticed, whatever times somebody sets, since nobody can set a ctime.
// Files whose metadata may stay the same through a change have no record (are_settled()). On FUSE, where a program may
// report any metadata, no record is believed. With Validation::kContent the file is read on each load, and its bytes
// must be the bytes that the record was made of.
//
// A spot check decodes one hit of many from its file as well, see is_next_checked(). If the pixels differ, the pixels
// of the file are delivered and nothing is believed any more by the loader, whose other worker processes are told to
// stop(). Files that only the reference decoder decodes are not checked.

struct FileRecordCounters {
    std::uint64_t hits = 0;
    std::uint64_t stale = 0;       // records of other contents, as far as known
    std::uint64_t damaged = 0;     // records that could not be read, or that failed their checks
    std::uint64_t checks = 0;      // hits that were decoded from their files as well
    std::uint64_t mismatches = 0;  // checks that found other pixels
};

enum class Validation : std::uint8_t {
    kStat,    // by the file's metadata
    kContent  // by its bytes
};

// Thread-safe.
class FileRecordCache {
  public:
    // Checks one hit in `check_interval`; 0: none.
    FileRecordCache(std::shared_ptr<const BuiltRecords> records, Validation validation,
                    std::uint32_t check_interval) noexcept
        : records_(std::move(records)), validation_(validation), check_interval_(check_interval) {}

    // Ends the use of the records, as a failed check of another process does.
    void stop() noexcept { has_failed_.store(true, std::memory_order_relaxed); }
    // False after a failed check or stop(), and in a process forked since.
    bool is_on() const noexcept {
        return !has_failed_.load(std::memory_order_relaxed) && generation_ == fork_generation();
    }
    bool checks_contents() const noexcept { return validation_ == Validation::kContent; }
    RecordKind kind() const noexcept { return records_->kind(); }
    const HashKey& key() const noexcept { return records_->key(); }

    // Returns false if nothing is looked for, or if there is no absolute path.
    bool find_key(ByteSpan path, const WorkingDirectory* directory, const StepsHash& steps,
                  ContentKey* key) const noexcept {
        return is_on() && find_file_key(records_->key(), path, directory, steps, key);
    }

    // Finds the metadata of the file at `path`, by which a record of it is believed. Returns false if none may be
    // believed.
    bool find_facts(ByteSpan path, const WorkingDirectory* directory, FileFacts* facts) noexcept;

    // The same for a file that was opened by this path and is not read yet. Returns false if no record may be believed.
    bool find_opened(int descriptor, ByteSpan path, FileVersion* opened) noexcept;

    bool find(const FileVersion& file, StoredRecord* record) const noexcept { return records_->find(file.key, record); }

    // Returns whether the record with this stamp is of the file as it is. `contents` matter only if contents are
    // checked.
    bool is_of(const RecordStamp& stamp, const FileVersion& file, ByteSpan contents) const noexcept {
        return checks_contents() ? is_of_contents(key(), stamp, contents) : facts_in(stamp) == file.facts;
    }

    // Returns whether to check this hit: one of each `check_interval` hits in a row, of any file. The position differs
    // between intervals and processes, so that no file is left out for good.
    bool is_next_checked() noexcept;

    enum class Outcome : std::uint8_t { kHit, kMiss, kStale, kDamaged };
    void count(Outcome outcome) noexcept {
        outcomes_[static_cast<int>(outcome)].fetch_add(1, std::memory_order_relaxed);
    }
    // `path` is the image's; empty if it is not known.
    void count_check(bool is_right, ByteSpan path, const WorkingDirectory* directory) noexcept;
    FileRecordCounters counters() const noexcept;
    // The absolute path of the first image that failed a check; empty if there is none or it is not known.
    std::string mismatched_path() const;

  private:
    const std::shared_ptr<const BuiltRecords> records_;
    const Validation validation_;
    FileSystemKinds file_systems_;
    const std::uint32_t check_interval_;
    const std::uint64_t first_interval_ = static_cast<std::uint64_t>(system_time_ns());
    const std::uint32_t generation_ = fork_generation();
    std::atomic<bool> has_failed_{false};
    std::atomic<std::uint64_t> outcomes_[4] = {};
    std::atomic<std::uint64_t> hits_to_check_{0};
    std::atomic<std::uint64_t> checks_{0};
    std::atomic<std::uint64_t> mismatches_{0};
    mutable std::mutex mutex_;
    std::string mismatched_path_;  // guarded by the mutex
};

}  // namespace fastload

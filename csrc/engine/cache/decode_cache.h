// The cache of a loader: entropy indexes of the images that it decodes, and coefficients or pixels that a build made.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/content_hash.h"
#include "base/span.h"
#include "codec/jpeg/entropy_index.h"
#include "engine/cache/file_record_cache.h"
#include "engine/cache/index_records.h"
#include "engine/fork_guard.h"

namespace fastload {

// Outcomes of index look-ups.
struct CacheCounters {
    std::uint64_t hits = 0;
    std::uint64_t misses = 0;
    std::uint64_t mismatches = 0;  // hits with an index of other data: dropped, and the image decoded without it
    std::uint64_t dropped = 0;     // indexes that were not kept for lack of room
};

// Thread-safe. Several caches may share records; each makes room for its own number of samples.
class DecodeCache {
  public:
    static constexpr std::size_t kMaxRecordBytes = IndexRecords::kMaxRecordBytes;

    // Makes a cache for records of about `expected_samples` images; 0 if the number is unknown. `key` must live as long
    // as `records`. `files` may be null.
    DecodeCache(const HashKey& key, std::shared_ptr<IndexRecords> records, std::uint64_t expected_samples,
                std::shared_ptr<FileRecordCache> files = nullptr) noexcept
        : key_(key), records_(std::move(records)), expected_samples_(expected_samples), files_(std::move(files)) {}

    // Null if none are kept.
    FileRecordCache* coefficients() const noexcept { return files_of(RecordKind::kCoefficients); }
    FileRecordCache* pixels() const noexcept { return files_of(RecordKind::kPixels); }

    // False if so little would fit that look-ups cost more than they save, and in a process forked since.
    bool is_worth_it() const noexcept {
        return is_worth_it_.load(std::memory_order_relaxed) && generation_ == fork_generation();
    }

    bool is_dense() const noexcept { return level_.load(std::memory_order_relaxed) == jpeg::IndexLevel::kDense; }

    ContentKey key_of(ByteSpan contents) const noexcept { return {content_hash(key_, contents), contents.size()}; }

    // Begins `index` anew for `shape` and fills it with what is known. `buffer` has kMaxRecordBytes of the caller's
    // scratch. After kOutOfMemory the index must not be used.
    Status find(const ContentKey& key, const jpeg::ScanShape& shape, Span<std::uint8_t> buffer,
                jpeg::EntropyIndex* index) noexcept;
    // Returns false if there is no room for it.
    bool keep(const ContentKey& key, const jpeg::EntropyIndex& index, Span<std::uint8_t> buffer) noexcept;
    // Drops an index that was of other data.
    void drop(const ContentKey& key) noexcept;

    CacheCounters counters() const noexcept;

  private:
    FileRecordCache* files_of(RecordKind kind) const noexcept {
        return files_ != nullptr && files_->kind() == kind ? files_.get() : nullptr;
    }

    // After this many records the mean size at a level is known.
    static constexpr std::uint64_t kSampledRecords = 256;
    // An image with more dense checkpoints gets one per row: a record must not be larger than it is worth.
    static constexpr std::size_t kMaxDenseCheckpoints = 8192;

    jpeg::IndexLevel level_for(const jpeg::ScanShape& shape) const noexcept;
    void choose_level(std::size_t record_bytes) noexcept;
    void give_up_if_full(std::uint64_t dropped) noexcept;

    const HashKey& key_;
    const std::shared_ptr<IndexRecords> records_;
    const std::uint64_t expected_samples_;
    const std::shared_ptr<FileRecordCache> files_;
    const std::uint32_t generation_ = fork_generation();
    std::atomic<jpeg::IndexLevel> level_{jpeg::IndexLevel::kDense};
    std::atomic<bool> is_worth_it_{true};
    std::atomic<std::uint64_t> level_records_{0};  // made at the present level, whether there was room or not
    std::atomic<std::uint64_t> level_bytes_{0};
    std::atomic<std::uint64_t> hits_{0};
    std::atomic<std::uint64_t> misses_{0};
    std::atomic<std::uint64_t> mismatches_{0};
    std::atomic<std::uint64_t> kept_{0};
    std::atomic<std::uint64_t> dropped_{0};
};

}  // namespace fastload

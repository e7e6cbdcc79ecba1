// Writes the coefficients or pixels of a store.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/content_hash.h"
#include "base/span.h"
#include "engine/cache/built_records.h"
#include "engine/cache/record_appender.h"

namespace fastload {

// One build by one process, see Note [kinds of records]. A file is published once, when it is complete: it is large
// enough or five minutes old, or the build ends. A process that is killed loses the file that it was writing; the next
// build removes it. Thread-safe.
class RecordBuild {
  public:
    // Removes the remains of killed builds. `records` is the store; all files in its folder may take `max_bytes`
    // together. `max_file_bytes` is 0 for the kind's own limit.
    RecordBuild(std::shared_ptr<const BuiltRecords> records, std::uint64_t max_bytes, std::uint64_t max_file_bytes = 0);

    const BuiltRecords& records() const noexcept { return *records_; }

    // Appends the record; other threads wait meanwhile. Returns false if it is not kept: it is too large, or error()
    // says why nothing more is kept.
    bool put(const ContentKey& key, std::uint32_t rank, ByteSpan record) noexcept;

    // Publishes the file that is being written. If that fails, its records may be lost.
    void finish() noexcept;

    // The first error: the system's or kStoreIsFull; 0 if there is none.
    int error() const noexcept;
    // A lower bound of the number of published records.
    std::uint64_t num_records() const noexcept;

  private:
    int append(const ContentKey& key, std::uint32_t rank, ByteSpan record);
    void publish_file() noexcept;

    const std::shared_ptr<const BuiltRecords> records_;
    mutable std::mutex mutex_;
    // Guarded by the mutex.
    RecordAppender appender_;
    std::chrono::steady_clock::time_point file_begin_;
    std::uint64_t num_records_ = 0;
    int error_ = 0;
};

}  // namespace fastload

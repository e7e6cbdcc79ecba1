// The bytes of sample files: read before the sample is decoded, and kept while it waits.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/span.h"
#include "base/status.h"
#include "engine/sample/recorded_file.h"
#include "io/file_reader.h"

namespace fastload {

// One file. Belongs to the thread that works on its sample just now.
class SampleFile {
  public:
    using SharedSum = std::shared_ptr<std::atomic<std::size_t>>;

    // `waiting_bytes` may be null for a file that never waits.
    explicit SampleFile(SharedSum waiting_bytes) noexcept : waiting_bytes_(std::move(waiting_bytes)) {}
    ~SampleFile() { forget(); }

    // As FileReader::read. The contents stay until forget().
    void read(ByteSpan path, std::uint64_t max_file_bytes, const WorkingDirectory* directory = nullptr,
              const HeadJudge& judge = nullptr) noexcept;
    // Takes the record that recorded() has opened instead of the file.
    void take_record() noexcept;
    // Takes `contents`, which somebody else keeps, for what a file holds.
    void view(ByteSpan contents) noexcept;
    void forget() noexcept;

    bool is_read() const noexcept { return is_read_; }
    // The record that may stand for the file. Null without memory.
    RecordedFile* recorded() noexcept;
    // Whether an open record stands for it: it has no contents then.
    bool has_record() const noexcept { return is_read_ && recorded_ != nullptr && recorded_->is_open(); }
    // The metadata of the file that read() has read.
    const FileFacts& facts() const noexcept { return reader_.facts(); }
    Status status() const noexcept { return status_; }
    ByteSpan contents() const noexcept { return contents_; }
    std::size_t held_bytes() const noexcept;
    // Call it for a file that was forgotten.
    void release_scratch(ScratchRule rule) noexcept;

    // Counts it as one that is kept while its sample waits; false where such files hold `limit` bytes already.
    bool may_wait(std::size_t limit) noexcept;

  private:
    FileReader reader_;
    std::unique_ptr<RecordedFile> recorded_;  // made when it is first asked for
    ByteSpan contents_;
    Status status_;
    bool is_read_ = false;
    bool is_counted_ = false;
    std::size_t counted_bytes_ = 0;
    const SharedSum waiting_bytes_;
};

// The files of one engine. Memory goes from one sample to the next, so that a warm epoch allocates nothing.
// Thread-safe.
class SampleFiles {
  public:
    // The most bytes of files that wait to be decoded. Beyond it they are forgotten and read again.
    static constexpr std::size_t kMaxWaitingBytes = std::size_t{64} << 20;

    // The memory of one file for each of `num_threads` stays; the memory of others as long as all spare memory together
    // is below kMaxSpareBytes. That of a large file does not.
    explicit SampleFiles(std::size_t num_threads);

    // A file that has not been read. May throw std::bad_alloc.
    std::unique_ptr<SampleFile> take();
    // Null is fine.
    void give_back(std::unique_ptr<SampleFile> file) noexcept;

    bool has_room() const noexcept { return waiting_bytes_->load(std::memory_order_relaxed) < kMaxWaitingBytes; }

    // Memory of the files that no sample uses now.
    std::size_t spare_bytes() const noexcept;

  private:
    static constexpr std::size_t kMaxSpareBytes = std::size_t{32} << 20;

    const std::size_t num_threads_;
    const SampleFile::SharedSum waiting_bytes_;
    mutable std::mutex mutex_;
    std::vector<std::unique_ptr<SampleFile>> spare_;  // never grows beyond what is reserved
    std::size_t spare_bytes_ = 0;
};

}  // namespace fastload

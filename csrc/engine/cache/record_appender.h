// Writes new records into files of a store in turn, within the store's bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/content_hash.h"
#include "base/span.h"
#include "engine/cache/opened_records.h"
#include "engine/cache/store_place.h"
#include "io/records/record_directory.h"
#include "io/records/record_file.h"
#include "io/records/record_folder.h"

namespace fastload {

// Not a system error: the store's bytes are used up.
constexpr int kStoreIsFull = -1;

// Not thread-safe. The first record creates a file, and nobody else sees a record before publish().
class RecordAppender {
  public:
    // With `is_merging` it may use all bytes of the store, because the copied records take less room afterwards.
    RecordAppender(const StorePlace& place, std::uint64_t max_file_bytes, bool is_merging = false) noexcept
        : place_(place), max_file_bytes_(max_file_bytes), is_merging_(is_merging) {}
    RecordAppender(const RecordAppender&) = delete;  // its file has one writer
    RecordAppender& operator=(const RecordAppender&) = delete;
    ~RecordAppender() { close(); }

    // Appends a record. Returns EFBIG if the file is full: publish() it, close() it and call again. Otherwise returns
    // 0, kStoreIsFull or the system's error. May throw std::bad_alloc, with nothing changed.
    int append(const ContentKey& key, std::uint32_t rank, ByteSpan record, RecordPlace* written);

    // Syncs the file and writes its records into the directory. *opened then knows all records of the file; it is null,
    // and the result 0, if there is nothing new. May throw std::bad_alloc, which counts as a failure.
    int publish(std::shared_ptr<const OpenedRecords>* opened);

    // The same for a file that never changes again: first gives back reserved space. Call close() afterwards.
    int publish_for_good(std::shared_ptr<const OpenedRecords>* opened);

    // Gives back reserved space, or the whole file if none of it is published. The next record begins another file.
    // Unpublished records are lost.
    void close() noexcept;
    // Only closes the file, in a process forked since.
    void close_descriptor() noexcept { writer_.close_descriptor(); }

    // Returns the bytes of the store that records of `record_bytes` in files need, including their directory.
    static std::uint64_t needed_bytes(std::uint64_t record_bytes, std::uint64_t records) noexcept;

    bool is_open() const noexcept { return writer_.is_open(); }
    bool has_unpublished() const noexcept { return num_published_ < entries_.size(); }
    const std::string& name() const noexcept { return writer_.name(); }
    std::shared_ptr<const RecordFile> file() const noexcept { return file_; }
    std::uint64_t bytes_written() const noexcept { return bytes_written_; }

  private:
    static constexpr std::uint64_t kPushedBytes = std::uint64_t{8} << 20;

    int begin_file();
    int make_room(std::uint64_t bytes);
    bool has_room(const FolderFiles& files, std::uint64_t step) const noexcept;

    const StorePlace place_;
    const std::uint64_t max_file_bytes_;
    const bool is_merging_;
    RecordFileWriter writer_;
    std::shared_ptr<const RecordFile> file_;
    std::vector<DirectoryEntry> entries_;  // published ones in order, then the others as they came
    std::size_t num_published_ = 0;
    std::uint64_t generation_ = 0;
    std::uint64_t granted_end_ = 0;  // the end that the store's bytes allow
    std::uint64_t unpushed_bytes_ = 0;
    std::uint64_t bytes_written_ = 0;
};

}  // namespace fastload

// Writes new records into files of a store, one after the other, within the store's bytes.
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

// Not a system error: the store's own bytes are used up.
constexpr int kStoreIsFull = -1;

// Not thread-safe. A file is made with the first record, and nobody else sees a record before publish().
class RecordAppender {
  public:
    // `is_merging`: what is copied takes less room afterwards, so it may use all bytes of the store.
    RecordAppender(const StorePlace& place, std::uint64_t max_file_bytes, bool is_merging = false) noexcept
        : place_(place), max_file_bytes_(max_file_bytes), is_merging_(is_merging) {}
    RecordAppender(const RecordAppender&) = delete;  // its file has one writer
    RecordAppender& operator=(const RecordAppender&) = delete;
    ~RecordAppender() { close(); }

    // EFBIG: the file is full; publish it, close() it, and come again. Else kStoreIsFull, or the system's error. May
    // throw std::bad_alloc, with nothing changed.
    int append(const ContentKey& key, std::uint32_t rank, ByteSpan record, RecordPlace* written);

    // Syncs the file and has the directory name its records. *opened knows all records of the file then.
    // Nothing new: 0, and *opened is null. May throw std::bad_alloc, as if it had failed.
    int publish(std::shared_ptr<const OpenedRecords>* opened);

    // The same for a file that never changes again: first gives back what was reserved. Call close() afterwards.
    int publish_for_good(std::shared_ptr<const OpenedRecords>* opened);

    // Gives back what was reserved, or the whole file where nothing of it is published. The next record begins another
    // one. Unpublished records are lost.
    void close() noexcept;
    // In a process forked since: closes the file, and no more.
    void close_descriptor() noexcept { writer_.close_descriptor(); }

    // The store's bytes that records of `record_bytes` in files need, their directory included.
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
    std::vector<DirectoryEntry> entries_;  // those published in order, then the others as they came
    std::size_t num_published_ = 0;
    std::uint64_t generation_ = 0;
    std::uint64_t granted_end_ = 0;  // so far the store's bytes allow it
    std::uint64_t unpushed_bytes_ = 0;
    std::uint64_t bytes_written_ = 0;
};

}  // namespace fastload

// Writes new records into files of a store in turn, within the store's bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/content_hash.h"
#include "base/span.h"
#include "engine/cache/opened_records.h"
#include "engine/cache/record_kinds.h"
#include "io/records/record_directory.h"
#include "io/records/record_file.h"
#include "io/records/record_folder.h"

namespace fastload {

// Not a system error: the store's bytes are used up.
constexpr int kStoreIsFull = -1;

// Not thread-safe. The first record creates a file, or goes on with the index file of a writer that has ended. Nobody
// else sees a record before publish().
class RecordAppender {
  public:
    // A file of `max_file_bytes` or more is full; 0: of the kind's own limit.
    explicit RecordAppender(const StorePlace& place, std::uint64_t max_file_bytes = 0) noexcept
        : place_(place),
          max_file_bytes_(max_file_bytes != 0 ? max_file_bytes : max_record_file_bytes(place.kind, place.max_bytes)) {}
    ~RecordAppender() { close(); }

    // Appends a record. Returns 0, kStoreIsFull or the system's error. May throw std::bad_alloc, with nothing changed.
    // Looks at the folder every 128th of the store's bytes and after each publish(): several processes may exceed the
    // store's bytes by that, unless each of them holds the folder's lock until publish() returns.
    int append(const ContentKey& key, std::uint32_t rank, ByteSpan record);

    // Syncs the file and writes its records into the directory. *opened then knows all records of the file; it is null,
    // and the result 0, if there is nothing new. May throw std::bad_alloc, which counts as a failure.
    int publish(std::shared_ptr<const OpenedRecords>* opened);

    // Closes the file, and removes it if none of it is published. The next record begins another one, or goes on with
    // this one. Unpublished records are lost.
    void close() noexcept;
    // Only closes the file, in a process forked since.
    void close_descriptor() noexcept { writer_.close_descriptor(); }

    bool is_open() const noexcept { return writer_.is_open(); }
    bool is_full() const noexcept { return writer_.end() >= max_file_bytes_; }
    bool has_unpublished() const noexcept { return num_published_ < entries_.size(); }
    const std::string& name() const noexcept { return writer_.name(); }
    std::uint64_t bytes_written() const noexcept { return bytes_written_; }

  private:
    static constexpr std::uint64_t kPushedBytes = std::uint64_t{8} << 20;

    int find_room(std::uint64_t bytes, FolderFiles* files);
    int begin_file(const FolderFiles& files);
    bool take_over(const std::string& name);

    const StorePlace place_;
    const std::uint64_t max_file_bytes_;
    RecordFileWriter writer_;
    std::shared_ptr<const RecordFile> file_;
    std::vector<DirectoryEntry> entries_;  // published ones in order, then the others as they came
    std::size_t num_published_ = 0;
    std::uint64_t generation_ = 0;
    std::uint64_t room_ = 0;  // bytes that may be written before the folder is looked at again
    std::uint64_t unpushed_bytes_ = 0;
    std::uint64_t bytes_written_ = 0;
};

}  // namespace fastload

// The records of a store's files as one process knows them: the place of each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/content_hash.h"
#include "engine/cache/record_kinds.h"
#include "io/records/record_directory.h"
#include "io/records/record_file.h"

namespace fastload {

// A record before it is read.
struct FoundRecord {
    RecordPlace place;
    std::uint32_t rank = 0;
};

// The records of one file. Keeps half a hash and the place of each record, in 21 bytes. Immutable.
class OpenedRecords {
  public:
    // `directory` comes from read_record_directory() for the file. May throw std::bad_alloc.
    OpenedRecords(std::string name, std::shared_ptr<const RecordFile> file, const RecordDirectory& directory);

    const std::string& name() const noexcept { return name_; }
    const std::shared_ptr<const RecordFile>& file() const noexcept { return file_; }
    std::uint64_t generation() const noexcept { return generation_; }
    std::size_t size() const noexcept { return tags_.size(); }
    std::size_t memory_bytes() const noexcept;

    // Finds the record of a key with this hash, as far as half of the hash tells.
    bool find(const ContentHash& hash, FoundRecord* found) const noexcept;

  private:
    // Sorted as in a .dir, by the lower half of the hash. Places have 38 bits for a multiple of 8, which is 2 TiB, and
    // the other bits for the size.
    static constexpr int kSizeBits = 26;
    static constexpr std::size_t kEntriesPerBucket = 8;

    std::size_t bucket_of(std::uint64_t tag) const noexcept;

    std::string name_;
    std::shared_ptr<const RecordFile> file_;
    std::uint64_t generation_;
    std::vector<std::uint64_t> tags_;
    std::vector<std::uint64_t> places_;
    std::vector<std::uint32_t> ranks_;
    std::vector<std::uint32_t> bucket_begins_;  // hashes are uniform, so a bucket of equal upper bits has few entries
    int bucket_shift_ = 63;
};

// All files that a look at the folder found. Immutable; a new snapshot shares the files that have not changed.
struct RecordSnapshot {
    std::vector<std::shared_ptr<const OpenedRecords>> files;
    std::vector<std::string> names;  // of all complete files, also of those that cannot be used
    std::uint64_t used_bytes = 0;    // on disk, by all files of the folder
    bool is_settled = true;          // false if a file that could not be opened may open later

    std::size_t num_records() const noexcept;
    std::size_t memory_bytes() const noexcept;
    // Finds the record of the highest rank. Returns the first file that has it, or nullptr if none has. The file lives
    // as long as the snapshot.
    const OpenedRecords* find(const ContentHash& hash, FoundRecord* found) const noexcept;
};

// Looks at the store's files of one kind and opens those that have changed since `before`. Returns 0 or the system's
// error. May throw std::bad_alloc.
int look_at_folder(const StorePlace& place, const RecordSnapshot& before, RecordSnapshot* after);

}  // namespace fastload

// The records of a store's files as one process knows them: where each lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/content_hash.h"
#include "engine/cache/store_place.h"
#include "io/records/record_directory.h"
#include "io/records/record_file.h"

namespace fastload {

// A record before it is read.
struct FoundRecord {
    RecordPlace place;
    std::uint32_t rank = 0;
};

// Those of one file, of which half a hash and the place are kept: 21 bytes a record. Immutable.
class OpenedRecords {
  public:
    // `directory` is what read_record_directory() gave for the file. May throw std::bad_alloc.
    OpenedRecords(std::string name, std::shared_ptr<const RecordFile> file, const RecordDirectory& directory);

    const std::string& name() const noexcept { return name_; }
    const std::shared_ptr<const RecordFile>& file() const noexcept { return file_; }
    std::uint64_t generation() const noexcept { return generation_; }
    // Bytes of the .dat with records; anything after them is none.
    std::uint64_t covered_bytes() const noexcept { return covered_bytes_; }
    std::size_t size() const noexcept { return tags_.size(); }
    std::size_t memory_bytes() const noexcept;

    // The record of a key with this hash, as far as half of it tells.
    bool find(const ContentHash& hash, FoundRecord* found) const noexcept;

  private:
    // As in a .dir: ordered by the hash's lower half. Places have 38 bits for a multiple of 8, which is 2 TiB, and the
    // others for the size.
    static constexpr int kSizeBits = 26;
    static constexpr std::size_t kEntriesPerBucket = 8;

    std::size_t bucket_of(std::uint64_t tag) const noexcept;

    std::string name_;
    std::shared_ptr<const RecordFile> file_;
    std::uint64_t generation_;
    std::uint64_t covered_bytes_;
    std::vector<std::uint64_t> tags_;
    std::vector<std::uint64_t> places_;
    std::vector<std::uint32_t> ranks_;
    std::vector<std::uint32_t> bucket_begins_;  // hashes are even, so that a bucket by the upper bits has few entries
    int bucket_shift_ = 63;
};

// Opens the file `name` (without an ending) of the store. Returns null where it cannot be used; *error is the system's
// then, EBADMSG for damage, or 0 for a file of another format or an untrusted owner. May throw std::bad_alloc.
std::shared_ptr<const OpenedRecords> open_records(const StorePlace& place, const std::string& name, int* error);

// All files that were there when a store was looked at. Immutable; a new one shares what has not changed.
struct RecordSnapshot {
    std::vector<std::shared_ptr<const OpenedRecords>> files;

    std::size_t num_records() const noexcept;
    std::size_t memory_bytes() const noexcept;
    // That of the highest rank, in the first file that has it; nullptr where none has. The file lives as long as the
    // snapshot.
    const OpenedRecords* find(const ContentHash& hash, FoundRecord* found) const noexcept;
};

}  // namespace fastload

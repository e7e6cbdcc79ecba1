// The directory of a file of records: the .dir beside a .dat, see Note [record files].
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/content_hash.h"
#include "base/span.h"
#include "io/records/record_file.h"

namespace fastload {

// An entry as it lies in the file.
struct DirectoryEntry {
    ContentHash hash;  // of the record's key
    std::uint64_t offset = 0;
    std::uint32_t size = 0;
    std::uint32_t rank = 0;

    RecordPlace place() const noexcept { return {offset, size}; }
};

// Orders entries by hash.low, then hash.high. Entries of one hash may come in any order.
bool comes_before(const DirectoryEntry& a, const DirectoryEntry& b) noexcept;

// Sorts the entries and keeps only the one of the highest rank for each hash, the first of equal ones. `Entry` is a
// DirectoryEntry or derived from it.
template <typename Entry>
void keep_best(std::vector<Entry>* entries) {
    const auto is_same = [](const Entry& a, const Entry& b) { return a.hash == b.hash; };
    std::stable_sort(entries->begin(), entries->end(), [&is_same](const Entry& a, const Entry& b) {
        return is_same(a, b) ? a.rank > b.rank : comes_before(a, b);
    });
    entries->erase(std::unique(entries->begin(), entries->end(), is_same), entries->end());
}

struct RecordDirectory {
    RecordFileId id = {};                 // of its .dat
    std::uint64_t generation = 0;         // grows by one with each write
    std::uint64_t covered_bytes = 0;      // of the .dat; all records lie in them
    std::vector<DirectoryEntry> entries;  // in order
};

// Replaces `<name>.dir` in the folder: writes a temporary file (`<name>.tmp`, 0600, O_EXCL), then fsync, rename, fsync
// of the folder. An error leaves no temporary file; if the last step fails, the new file is already in place. The
// caller holds the lock on the .dat and has synced it. `key` is the store's; the checksums in the file depend on it.
int write_record_directory(int folder, const std::string& name, RecordKind kind, std::uint32_t decoder_revision,
                           const HashKey& key, const RecordDirectory& directory);

// Returns kGood if everything in the .dir that can be checked is right: the checksums, the order, and every place,
// which lies within the covered bytes, after the .dat's head and at a multiple of 8. Returns kFailed with EBADMSG if it
// is damaged, with ENOENT if the store changed meanwhile: list it again. May throw std::bad_alloc.
RecordFileVerdict read_record_directory(int folder, const std::string& name, RecordKind kind,
                                        std::uint32_t decoder_revision, const HashKey& key, RecordDirectory* directory,
                                        int* error);

// Reads only the generation, from the file's head, for a file that is checked again and again. Accepts any kind
// and decoder, and verifies no checksum.
RecordFileVerdict read_record_generation(int folder, const std::string& name, std::uint64_t* generation,
                                         int* error) noexcept;

}  // namespace fastload

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

// As it lies in the file.
struct DirectoryEntry {
    ContentHash hash;  // of the record's key
    std::uint64_t offset = 0;
    std::uint32_t size = 0;
    std::uint32_t rank = 0;

    RecordPlace place() const noexcept { return {offset, size}; }
};

// By hash.low, then hash.high. Entries of one hash may stand in any order.
bool comes_before(const DirectoryEntry& a, const DirectoryEntry& b) noexcept;

// Keeps the entry of the highest rank of each hash, of equal ones the first, and puts them in order. `Entry` is a
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
    RecordFileId id;                      // of the .dat it is about
    std::uint64_t generation = 0;         // one more each time it is written anew
    std::uint64_t covered_bytes = 0;      // of the .dat: all records end there or before
    std::vector<DirectoryEntry> entries;  // in order
};

// Replaces `<name>.dir` in the folder: a temporary file (`<name>.tmp`, 0600, O_EXCL), fsync,
// rename, fsync of the folder. Nothing is left where that fails; if the last step fails, the new file is in its
// place already. The caller holds the lock on the .dat, and has synced it. `key` is the store's; the checksums in the
// file depend on it.
int write_record_directory(int folder, const std::string& name, RecordKind kind, std::uint32_t decoder_revision,
                           const HashKey& key, const RecordDirectory& directory);

// kGood: all that a .dir can say was found right: checksums, order, every place inside of what is covered and after
// the .dat's head, at multiples of 8. kFailed with EBADMSG: damaged. ENOENT: the store changed meanwhile, list it
// again. May throw std::bad_alloc.
RecordFileVerdict read_record_directory(int folder, const std::string& name, RecordKind kind,
                                        std::uint32_t decoder_revision, const HashKey& key, RecordDirectory* directory,
                                        int* error);

// The generation alone, from the file's head; for a file that is looked at again and again. For a regular file of any
// owner, kind and decoder, and no checksum is looked at.
RecordFileVerdict read_record_generation(int folder, const std::string& name, std::uint64_t* generation,
                                         int* error) noexcept;

// The covered bytes alone, likewise.
RecordFileVerdict read_covered_bytes(int folder, const std::string& name, std::uint64_t* covered_bytes,
                                     int* error) noexcept;

}  // namespace fastload

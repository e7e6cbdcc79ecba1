// Records of entropy indexes, and their place: the memory of the process, or a store on disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/content_hash.h"
#include "base/span.h"

namespace fastload {

// Thread-safe, but not for use in a process forked since.
class IndexRecords {
  public:
    static constexpr std::size_t kMaxRecordBytes = 65535;

    virtual ~IndexRecords() = default;

    // Returns the size of a key's record, or 0 if there is none. Copies the record to the front of `buffer` if that is
    // large enough. It may be another key's, or damaged: records carry a check over key and bytes.
    virtual std::size_t find(const ContentKey& key, Span<std::uint8_t> buffer) const noexcept = 0;

    // Keeps a copy of `record` (1 to kMaxRecordBytes) instead of the key's old record. For two records of one key, the
    // one of the higher `rank` says more. Returns false if there is no room.
    virtual bool put(const ContentKey& key, std::uint32_t rank, ByteSpan record) noexcept = 0;

    // Removes a record that was wrong.
    virtual void remove(const ContentKey& key) noexcept = 0;

    // The bytes that the records may take, and the bytes that they take.
    virtual std::uint64_t max_bytes() const noexcept = 0;
    virtual std::uint64_t used_bytes() const noexcept = 0;
    // The most bytes that a record takes beside its own.
    virtual std::uint64_t overhead_bytes() const noexcept = 0;
};

// Note [index records]
// A record is the output of EntropyIndex::pack() followed by 8 bytes that depend on all of it and on the key. The key
// is the hash of the whole file, under a secret of the process or of the store, and its length. So an index belongs to
// exactly these bytes, whatever their file is called, and a rewritten file is simply another one.

constexpr std::size_t kIndexCheckBytes = 8;

inline std::uint64_t index_check_of(const HashKey& secret, const ContentKey& key, ByteSpan packed) noexcept {
    return content_sum(secret, packed) ^ key.hash.high;
}

// Sets *packed to the bytes before the check if the record is whole. Returns false for any other record.
inline bool open_index_record(const HashKey& secret, const ContentKey& key, ByteSpan record,
                              ByteSpan* packed) noexcept {
    if (record.size() <= kIndexCheckBytes) return false;
    *packed = record.subspan(0, record.size() - kIndexCheckBytes);
    const std::uint64_t check = index_check_of(secret, key, *packed);
    return std::memcmp(packed->end(), &check, kIndexCheckBytes) == 0;
}

}  // namespace fastload

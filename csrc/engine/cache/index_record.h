// A record of an entropy index: Note [index records].
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/content_hash.h"
#include "base/span.h"

namespace fastload {

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

// The place of entropy indexes: the memory of the process, or a store on disk.
#pragma once

#include <cstddef>
#include <cstdint>

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

}  // namespace fastload

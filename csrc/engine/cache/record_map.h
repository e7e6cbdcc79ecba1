// Small records in memory, by their keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/content_hash.h"
#include "base/span.h"

namespace fastload {

// Not thread-safe. Records lie one after the other in blocks. A replaced record leaves dead bytes, since records grow
// as more is learnt, and what one leaves is too short for others of its kind. Before a sixteenth of all bytes is dead,
// the live records of the block with the most dead bytes are appended again, and the block is freed.
class RecordMap {
  public:
    static constexpr std::size_t kBlockBytes = std::size_t{256} << 10;
    // The most bytes that a record takes beside its own: 24 for its head, 7 for its alignment, 64 for its key.
    static constexpr std::size_t kOverheadBytes = 95;

    // The head of a record in a block; its bytes follow.
    struct Record {
        Record** owner = nullptr;  // points to this record; null if it is dead
        std::uint32_t size = 0;
        std::uint32_t rank = 0;
        std::size_t block = 0;

        ByteSpan view() const noexcept { return {reinterpret_cast<const std::uint8_t*>(this + 1), size}; }
        // Copies the record to the front of `buffer` if that is large enough. Returns its size.
        std::size_t copy_to(Span<std::uint8_t> buffer) const noexcept;
    };

    // Returns null if there is none. The record stays until the next call that is not const.
    const Record* find(const ContentKey& key) const noexcept;

    // Keeps a copy of at most 65535 bytes instead of the key's old record. Returns false without memory; the old record
    // stays then.
    bool put(const ContentKey& key, std::uint32_t rank, ByteSpan record) noexcept;
    void remove(const ContentKey& key) noexcept;

    std::size_t size() const noexcept { return records_.size(); }
    std::size_t record_bytes() const noexcept { return record_bytes_; }
    // The bytes of all blocks and, roughly, of the map.
    std::size_t memory_bytes() const noexcept { return num_blocks_ * kBlockBytes + records_.size() * kKeyBytes; }
    // The most that put() of a record may add to memory_bytes(), for however short a time.
    static constexpr std::size_t kMostAddedBytes = 2 * kBlockBytes + 64;

    // Iterates over pairs of a key and a pointer to its record.
    auto begin() const noexcept { return records_.begin(); }
    auto end() const noexcept { return records_.end(); }

  private:
    static constexpr std::size_t kKeyBytes = 64;  // a node, 8 to 16 bytes in the table

    struct Block {
        std::unique_ptr<std::uint8_t[]> bytes;  // null if it is freed
        std::size_t used = 0;
        std::size_t dead = 0;
    };
    struct HashOfKey {
        std::size_t operator()(const ContentKey& key) const noexcept { return key.hash.low; }
    };

    static std::size_t bytes_of(std::size_t record_bytes) noexcept;
    void make_room(std::size_t bytes);
    Record* append(std::size_t record_bytes) noexcept;
    void mark_dead(Record* record) noexcept;
    void clean();
    void empty(std::size_t index);

    std::unordered_map<ContentKey, Record*, HashOfKey> records_;
    std::vector<Block> blocks_;
    std::size_t open_ = 0;  // the block that takes the next record
    std::size_t num_blocks_ = 0;
    std::size_t dead_bytes_ = 0;
    std::size_t record_bytes_ = 0;
};

}  // namespace fastload

// Small records in the memory of one process, found by the contents that they describe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/content_hash.h"
#include "base/span.h"
#include "engine/cache/index_records.h"
#include "engine/cache/record_arenas.h"

namespace fastload {

// Thread-safe, but not for use in a process forked afterwards (Note [after fork]). Keeps only 48 bits of a key's hash.
// So find() may return the record of other contents, and put() and remove() may change that record, with a chance of
// 2^-48 for each record in the table (2^-27 with two million): the caller's records carry a check over key and bytes.
//
// A record costs its bytes rounded up to 4, and 4 bytes more. A slot takes 8 bytes, and at least 7/12 of the slots are
// in use once they have grown: at most 21 bytes per record beside its own, and the arena that is not yet full. Up to an
// eighth of all arenas may be space that replaced and removed records have left and that no other record fits. Before
// it exceeds that, a put() packs all records, and every other call waits (under 1 us per record).
class IndexTable final : public IndexRecords {
  public:
    struct Counts {
        std::size_t records = 0;
        std::size_t record_bytes = 0;  // of their contents
        std::size_t memory_bytes = 0;  // of all arenas and slots; `max_bytes` bounds it
    };

    // Takes memory as needed, at most `max_bytes`. While the slots grow, the old and the new ones exist together.
    explicit IndexTable(std::size_t max_bytes) noexcept : max_bytes_(max_bytes) {}
    IndexTable(const IndexTable&) = delete;  // others hold its address
    IndexTable& operator=(const IndexTable&) = delete;

    std::size_t find(const ContentKey& key, Span<std::uint8_t> buffer) const noexcept override;

    // Returns false, and changes no record, if the record is too long or empty, or if there is no room or no memory. A
    // full table still replaces a record by one that needs no more space, or one that fits a free place.
    bool put(const ContentKey& key, ByteSpan record) noexcept;
    bool put(const ContentKey& key, std::uint32_t /*rank*/, ByteSpan record) noexcept override {
        return put(key, record);
    }

    void remove(const ContentKey& key) noexcept override;

    // Removes all records and gives all memory back.
    void clear() noexcept;

    Counts counts() const noexcept;
    std::uint64_t max_bytes() const noexcept override { return max_bytes_; }
    std::uint64_t used_bytes() const noexcept override { return counts().memory_bytes; }
    std::uint64_t overhead_bytes() const noexcept override { return 24; }

  private:
    using Place = RecordArenas::Place;

    struct Slot {
        std::uint32_t tag = 0;
        Place place = RecordArenas::kNone;
    };
    // The head of a place.
    struct Head {
        std::uint16_t size;
        std::uint16_t tag;
    };
    // The 48 bits. The tag of a slot also gives the place where the search for it begins, so the slots can be rebuilt
    // without the keys. The length of the contents is part of their hash.
    struct Tags {
        explicit Tags(const ContentKey& key) noexcept
            : slot(static_cast<std::uint32_t>(key.hash.low >> 32)), head(static_cast<std::uint16_t>(key.hash.low)) {}
        std::uint32_t slot;
        std::uint16_t head;
    };
    struct Slots {
        std::unique_ptr<Slot[]> slots;
        std::size_t size = 0;

        std::size_t bytes() const noexcept { return size * sizeof(Slot); }
        std::size_t home(std::uint32_t tag) const noexcept { return std::uint64_t{tag} * size >> 32; }
        std::size_t next(std::size_t index) const noexcept { return index + 1 == size ? 0 : index + 1; }
        void add(Slot slot) noexcept;
        void remove(std::size_t index) noexcept;
    };

    static std::size_t units_of(std::size_t record_bytes) noexcept;
    Head head_at(Place place) const noexcept;
    void write(Place place, std::uint16_t tag, ByteSpan record) noexcept;
    Slot* slot_of(const Tags& tags) const noexcept;
    // Returns a place for a record, or kNone if there is none. May move records, but no slot.
    Place take(std::size_t units, std::size_t slot_bytes) noexcept;
    // Packs the records closely, if there is memory to sort them.
    void compact() noexcept;
    bool insert(const Tags& tags, ByteSpan record) noexcept;
    bool replace(Slot* slot, const Tags& tags, ByteSpan record) noexcept;
    std::size_t num_slots_with_one_more() const noexcept;
    // Returns the bytes that slots of this size leave to arenas.
    std::size_t max_arena_bytes(std::size_t slot_bytes) const noexcept;

    const std::size_t max_bytes_;
    mutable std::mutex mutex_;
    RecordArenas arenas_;
    Slots slots_;
    std::size_t num_records_ = 0;
    std::size_t record_bytes_ = 0;
    std::size_t free_bytes_when_compact_ = 0;
};

}  // namespace fastload

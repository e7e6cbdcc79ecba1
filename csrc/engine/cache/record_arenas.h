// Memory for many small records: large arenas that are cut into places, and the places that were given back.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace fastload {

// Places are counted in units of 4 bytes and lie in one arena each. The owner of a place knows its size. Not
// thread-safe.
class RecordArenas {
  public:
    // The arena in the upper half, the unit in it in the lower half.
    using Place = std::uint32_t;

    static constexpr std::size_t kUnitBytes = 4;
    // Includes what allocators keep for themselves, so that an arena fills whole pages.
    static constexpr std::size_t kArenaBytes = kUnitBytes << 16;
    static constexpr std::size_t kMaxUnits = (std::size_t{1} << 14) + 1;
    // Not the beginning of a place: the last unit of an arena that is never made.
    static constexpr Place kNone = ~Place{0};

    RecordArenas() noexcept { free_.fill(kNone); }

    // Returns a place of `units`, 1 to kMaxUnits, or kNone. Makes an arena only if all arenas then have at most
    // `max_bytes`.
    Place take(std::size_t units, std::size_t max_bytes) noexcept;

    // Frees `units` from `place` on, 1 to kMaxUnits: a place that was taken, or the end of one.
    void give_back(Place place, std::size_t units) noexcept;

    std::uint8_t* at(Place place) const noexcept { return arenas_[place >> 16].get() + kUnitBytes * (place & 0xffff); }

    // The bytes of all arenas, taken or free.
    std::size_t bytes() const noexcept { return arenas_.size() * kArenaBytes; }

    // The bytes of places that were given back, and of ends of arenas that were too short. Free places are never
    // joined.
    std::size_t free_bytes() const noexcept { return free_units_ * kUnitBytes; }

    // Note [moving places]
    // After restart() nothing is taken, but no byte has changed. A caller that then takes places of the same sizes in
    // the same order gets each of them at or before its old place, and nothing at or after the old place has been
    // written: a place that is not at the front of the remaining space lies in an earlier arena. So the contents can be
    // moved one by one. No arena is made meanwhile; drop_unused() ends the move.
    void restart() noexcept;
    void drop_unused() noexcept;

  private:
    bool next_arena(std::size_t max_bytes) noexcept;
    bool make_arena(std::size_t max_bytes) noexcept;
    // Returns the least size of a free place with at least `units`, or kMaxUnits + 1 if there is none.
    std::size_t free_size_from(std::size_t units) const noexcept;
    Place take_free(std::size_t size, std::size_t units) noexcept;

    static constexpr std::size_t kUsableBytes = kArenaBytes - 64;
    static constexpr std::size_t kArenaUnits = kUsableBytes / kUnitBytes;
    static constexpr std::size_t kSizes = kMaxUnits + 1;

    std::vector<std::unique_ptr<std::uint8_t[]>> arenas_;
    std::size_t current_ = 0;               // the arena that new places are cut from
    std::size_t used_units_ = kArenaUnits;  // of the current arena
    std::size_t free_units_ = 0;
    std::array<Place, kSizes> free_;  // the first place of each size; each place begins with the next one
    std::array<std::uint64_t, kSizes / 64 + 1> has_free_{};  // a bit for each size
};

}  // namespace fastload

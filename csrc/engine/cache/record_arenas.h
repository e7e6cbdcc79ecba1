// Memory for many small records: large arenas, cut into places, and the places that were given back.
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
    // Upper half: the arena; lower half: the unit in it.
    using Place = std::uint32_t;

    static constexpr std::size_t kUnitBytes = 4;
    // With what allocators keep of it for themselves, so that it fills whole pages.
    static constexpr std::size_t kArenaBytes = kUnitBytes << 16;
    static constexpr std::size_t kMaxUnits = (std::size_t{1} << 14) + 1;
    // Begins no place: the last unit of an arena that is never made.
    static constexpr Place kNone = ~Place{0};

    RecordArenas() noexcept { free_.fill(kNone); }

    // A place of `units`, 1 to kMaxUnits, or kNone. Makes an arena only if all have at most `max_bytes` with it.
    Place take(std::size_t units, std::size_t max_bytes) noexcept;

    // `units` from `place` on, 1 to kMaxUnits: a place that was taken, or the end of one.
    void give_back(Place place, std::size_t units) noexcept;

    std::uint8_t* at(Place place) const noexcept { return arenas_[place >> 16].get() + kUnitBytes * (place & 0xffff); }

    // All arenas, whatever of them is taken.
    std::size_t bytes() const noexcept { return arenas_.size() * kArenaBytes; }

    // Places that were given back, and the ends of arenas that were too short. Places do not grow together again.
    std::size_t free_bytes() const noexcept { return free_units_ * kUnitBytes; }

    // Note [moving places]
    // After restart() nothing is taken, but no byte has changed. A caller that then takes places of the same sizes in
    // the same order gets each of them at or before its old place, and nothing at or after that has been
    // written: a place that is not at the front of what is left lies in an arena before. So what is in them can be
    // moved one by one. No arena is made meanwhile; drop_unused() ends it.
    void restart() noexcept;
    void drop_unused() noexcept;

  private:
    bool next_arena(std::size_t max_bytes) noexcept;
    bool make_arena(std::size_t max_bytes) noexcept;
    // The least size of at least `units` that some free place has; kMaxUnits + 1 where there is none.
    std::size_t free_size_from(std::size_t units) const noexcept;
    Place take_free(std::size_t size, std::size_t units) noexcept;

    static constexpr std::size_t kUsableBytes = kArenaBytes - 64;
    static constexpr std::size_t kArenaUnits = kUsableBytes / kUnitBytes;
    static constexpr std::size_t kSizes = kMaxUnits + 1;

    std::vector<std::unique_ptr<std::uint8_t[]>> arenas_;
    std::size_t current_ = 0;               // the arena that new places are cut from
    std::size_t used_units_ = kArenaUnits;  // of that one
    std::size_t free_units_ = 0;
    std::array<Place, kSizes> free_;  // by size, the first place; each begins with the next one's
    std::array<std::uint64_t, kSizes / 64 + 1> has_free_{};  // a bit for each size
};

}  // namespace fastload

#include "engine/cache/record_arenas.h"

#include <cstring>
#include <new>

namespace fastload {
namespace {

// A free place that is larger by at most this many units is preferred to new memory: little of it is left over.
constexpr std::size_t kNearUnits = 8;
constexpr std::size_t kMaxArenas = 0xffff;  // one less than 16 bits can number, for kNone

}  // namespace

RecordArenas::Place RecordArenas::take(std::size_t units, std::size_t max_bytes) noexcept {
    const std::size_t size = free_size_from(units);
    if (size <= units + kNearUnits && size <= kMaxUnits) return take_free(size, units);
    if (kArenaUnits - used_units_ < units) {
        if (size <= kMaxUnits) return take_free(size, units);
        if (!next_arena(max_bytes)) return kNone;
    }
    const auto place = static_cast<Place>(current_ << 16 | used_units_);
    used_units_ += units;
    return place;
}

void RecordArenas::give_back(Place place, std::size_t units) noexcept {
    std::memcpy(at(place), &free_[units], sizeof(Place));
    free_[units] = place;
    has_free_[units / 64] |= std::uint64_t{1} << units % 64;
    free_units_ += units;
}

void RecordArenas::restart() noexcept {
    free_.fill(kNone);
    has_free_.fill(0);
    free_units_ = 0;
    current_ = 0;
    used_units_ = arenas_.empty() ? kArenaUnits : 0;
}

void RecordArenas::drop_unused() noexcept {
    if (current_ + 1 < arenas_.size()) arenas_.resize(current_ + 1);
}

bool RecordArenas::next_arena(std::size_t max_bytes) noexcept {
    const std::size_t next = arenas_.empty() ? 0 : current_ + 1;
    if (next == arenas_.size() && !make_arena(max_bytes)) return false;
    if (used_units_ < kArenaUnits) {
        give_back(static_cast<Place>(current_ << 16 | used_units_), kArenaUnits - used_units_);
    }
    current_ = next;
    used_units_ = 0;
    return true;
}

bool RecordArenas::make_arena(std::size_t max_bytes) noexcept {
    if (arenas_.size() == kMaxArenas || max_bytes < kArenaBytes || bytes() > max_bytes - kArenaBytes) return false;
    std::unique_ptr<std::uint8_t[]> arena(new (std::nothrow) std::uint8_t[kUsableBytes]);
    if (arena == nullptr) return false;
    try {
        arenas_.push_back(std::move(arena));
    } catch (const std::bad_alloc&) {
        return false;
    }
    return true;
}

std::size_t RecordArenas::free_size_from(std::size_t units) const noexcept {
    std::size_t word = units / 64;
    std::uint64_t bits = has_free_[word] & ~std::uint64_t{0} << units % 64;
    while (bits == 0) {
        if (++word == has_free_.size()) return kMaxUnits + 1;
        bits = has_free_[word];
    }
    return 64 * word + static_cast<std::size_t>(__builtin_ctzll(bits));
}

RecordArenas::Place RecordArenas::take_free(std::size_t size, std::size_t units) noexcept {
    const Place place = free_[size];
    std::memcpy(&free_[size], at(place), sizeof(Place));
    if (free_[size] == kNone) has_free_[size / 64] &= ~(std::uint64_t{1} << size % 64);
    free_units_ -= size;
    if (size > units) give_back(static_cast<Place>(place + units), size - units);
    return place;
}

}  // namespace fastload

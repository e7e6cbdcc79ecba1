// Arenas for tests.
#pragma once

#include <sys/mman.h>

#include <cstring>
#include <memory>

#include "check.h"
#include "processes/arena.h"

namespace fastload::testing {

inline std::shared_ptr<Arena> make_arena(std::size_t num_slots, std::size_t slot_bytes = Arena::kMinSlotBytes) {
    int error = 0;
    auto arena = std::make_shared<Arena>(Arena::create(num_slots, slot_bytes, &error));
    CHECK(arena->is_mapped());
    return arena;
}

// Pages that a part of a slot has, by the page tables and the file's cache.
inline std::size_t resident_pages(const Arena& arena, std::size_t slot, std::size_t offset, std::size_t size) {
    const std::size_t page = Arena::round_to_pages(1);
    std::vector<unsigned char> flags(size / page);
    CHECK(::mincore(arena.slot(slot) + offset, size, flags.data()) == 0);
    std::size_t count = 0;
    for (const unsigned char flag : flags) count += flag & 1;
    return count;
}

}  // namespace fastload::testing

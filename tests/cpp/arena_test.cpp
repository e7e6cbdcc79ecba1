#include "processes/arena.h"

#include "check.h"
#include "forked_child.h"

namespace fastload {
namespace {

constexpr std::size_t kSlotBytes = Arena::kMinSlotBytes;

Arena make_arena(std::size_t num_slots, std::size_t slot_bytes = kSlotBytes) {
    int error = 0;
    return Arena::create(num_slots, slot_bytes, Arena::For::kForkedWorker, &error);
}

}  // namespace

TEST_CASE(slots_end_at_a_page_and_have_only_their_bytes) {
    const Arena arena = make_arena(2, kSlotBytes + 5000);
    const std::size_t size = arena.slot_bytes();
    CHECK_EQUAL(size % Arena::round_to_pages(1), 0U);
    CHECK(size >= kSlotBytes && size <= kSlotBytes + 5000);
    CHECK(arena.has(0, 0, size) && arena.has(1, size, 0) && arena.has(1, size - 1, 1));
    CHECK(!arena.has(1, size - 1, 2) && !arena.has(1, size + 1, 0) && !arena.has(2, 0, 0));
    CHECK(!arena.has(1, 1, SIZE_MAX) && !arena.has(1, SIZE_MAX, 2));
}

TEST_CASE(memory_is_counted_with_and_without_a_descriptor_and_removed_though_another_process_maps_it) {
    const std::size_t page = Arena::round_to_pages(1);
    Arena arena = make_arena(3, 5 * kSlotBytes);
    CHECK(arena.populate(0, 0, page) && arena.populate(2, 4 * page, 10 * page));
    std::memset(arena.slot(2) + 4 * page, 5, 10 * page);
    const testing::IdleChild other;
    CHECK_EQUAL(arena.resident_bytes(), 11 * page);
    arena.remove(2, 5 * page, 6 * page);
    CHECK_EQUAL(arena.resident_bytes(), 5 * page);
    arena.close_descriptor();
    CHECK_EQUAL(arena.resident_bytes(), 5 * page);
    CHECK(arena.slot(2)[5 * page - 1] == 5 && arena.slot(2)[5 * page] == 0 && arena.slot(2)[11 * page] == 5);
    arena.remove_all();
    CHECK_EQUAL(arena.resident_bytes(), 0U);
}

TEST_CASE(an_arena_that_is_moved_is_unmapped_once) {
    Arena first = make_arena(2, SIZE_MAX);  // is halved until it fits
    first.slot(1)[0] = 3;
    Arena second = std::move(first);
    Arena third;
    third = std::move(second);
    CHECK(third.slot(1)[0] == 3 && !second.is_mapped());  // NOLINT: a moved arena is empty
}

}  // namespace fastload

#include "processes/arena.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <utility>

#include "arenas.h"
#include "check.h"
#include "forked_child.h"

namespace fastload {
namespace {

using testing::in_forked_child;
using testing::make_arena;

constexpr std::size_t kSlotBytes = Arena::kMinSlotBytes;

// Leaves this process `spare` bytes of address space.
bool limit_address_space(std::size_t spare) {
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t limit = pages * Arena::round_to_pages(1) + spare;
    const rlimit limits{limit, limit};
    return ::setrlimit(RLIMIT_AS, &limits) == 0;
}

// Afterwards the system refuses a memfd.
bool refuse_descriptors() {
    const rlimit none{0, 0};
    return ::setrlimit(RLIMIT_NOFILE, &none) == 0;
}

bool holds(const Arena& arena, std::size_t slot, std::uint8_t value) {
    return arena.slot(slot)[0] == value && arena.slot(slot)[arena.slot_bytes() - 1] == value;
}

void fill_ends(const Arena& arena, std::size_t slot, std::uint8_t value) {
    arena.slot(slot)[0] = value;
    arena.slot(slot)[arena.slot_bytes() - 1] = value;
}

}  // namespace

TEST_CASE(a_new_arena_has_slots_of_the_wanted_size_and_no_memory) {
    const auto arena = make_arena(16, std::size_t{1} << 32);
    CHECK_EQUAL(arena->num_slots(), 16U);
    CHECK_EQUAL(arena->slot_bytes(), std::size_t{1} << 32);
    CHECK(arena->descriptor() >= 0);
    CHECK((::fcntl(arena->descriptor(), F_GETFD) & FD_CLOEXEC) != 0);
    CHECK_EQUAL(arena->resident_bytes(), 0U);
}

TEST_CASE(slots_end_at_a_page) {
    const auto arena = make_arena(3, kSlotBytes + 5000);
    CHECK_EQUAL(arena->slot_bytes() % Arena::round_to_pages(1), 0U);
    CHECK(arena->slot_bytes() >= kSlotBytes && arena->slot_bytes() <= kSlotBytes + 5000);
}

TEST_CASE(an_arena_has_only_bytes_within_one_slot) {
    const auto arena = make_arena(2);
    CHECK(arena->has(0, 0, kSlotBytes));
    CHECK(arena->has(1, kSlotBytes, 0));
    CHECK(arena->has(1, kSlotBytes - 1, 1));
    CHECK(!arena->has(1, kSlotBytes - 1, 2));
    CHECK(!arena->has(1, 1, SIZE_MAX));
    CHECK(!arena->has(1, kSlotBytes + 1, 0));
    CHECK(!arena->has(1, SIZE_MAX, 2));
    CHECK(!arena->has(2, 0, 0));
}

TEST_CASE(slots_are_halved_until_the_address_space_suffices) {
    CHECK_EQUAL(in_forked_child([] {
                    if (!limit_address_space(64 * kSlotBytes)) return false;
                    int error = 0;
                    const Arena arena = Arena::create(4, std::size_t{1} << 32, &error);
                    return arena.is_mapped() && arena.descriptor() >= 0 && arena.slot_bytes() >= 4 * kSlotBytes &&
                           arena.slot_bytes() <= 16 * kSlotBytes;
                }),
                0);
    CHECK_EQUAL(in_forked_child([] {
                    if (!limit_address_space(kSlotBytes)) return false;
                    int error = 0;
                    return !Arena::create(4, std::size_t{1} << 32, &error).is_mapped() && error == ENOMEM;
                }),
                0);
}

TEST_CASE(a_size_that_overflows_is_halved) {
    CHECK_EQUAL(in_forked_child([] {
                    int error = 0;
                    return limit_address_space(64 * kSlotBytes) && Arena::create(4, SIZE_MAX, &error).is_mapped();
                }),
                0);
}

TEST_CASE(a_forked_child_writes_what_its_parent_reads) {
    for (const bool is_anonymous : {false, true}) {
        CHECK_EQUAL(in_forked_child([is_anonymous] {
                        if (is_anonymous && !refuse_descriptors()) return false;
                        int error = 0;
                        Arena arena = Arena::create(2, kSlotBytes, &error);
                        if (!arena.is_mapped() || (arena.descriptor() < 0) != is_anonymous) return false;
                        const int code = in_forked_child([&] {
                            fill_ends(arena, 1, 7);
                            return true;
                        });
                        return code == 0 && holds(arena, 1, 7) && !holds(arena, 0, 7);
                    }),
                    0);
    }
}

TEST_CASE(another_mapping_of_the_descriptor_is_the_same_memory) {
    const auto arena = make_arena(2);
    int error = 0;
    const Arena opened = Arena::open(arena->descriptor(), 2, kSlotBytes, &error);
    CHECK(opened.is_mapped());
    CHECK_EQUAL(opened.descriptor(), -1);
    arena->close_descriptor();
    CHECK_EQUAL(arena->descriptor(), -1);
    fill_ends(*arena, 1, 9);
    CHECK(holds(opened, 1, 9));
}

TEST_CASE(a_descriptor_that_is_no_arena_is_refused) {
    const auto arena = make_arena(2);
    int error = 0;
    CHECK(!Arena::open(arena->descriptor(), 3, kSlotBytes, &error).is_mapped());
    CHECK_EQUAL(error, EINVAL);
    CHECK(!Arena::open(arena->descriptor(), SIZE_MAX, kSlotBytes, &error).is_mapped());
    CHECK_EQUAL(error, EINVAL);
    CHECK(!Arena::open(arena->descriptor(), 2, kSlotBytes - 1, &error).is_mapped());
    CHECK_EQUAL(error, EINVAL);
    CHECK(!Arena::open(arena->descriptor(), 0, kSlotBytes, &error).is_mapped());
    CHECK_EQUAL(error, EINVAL);
    CHECK(!Arena::open(-1, 2, kSlotBytes, &error).is_mapped());
    CHECK_EQUAL(error, EBADF);
}

TEST_CASE(memory_is_counted_with_and_without_a_descriptor) {
    const std::size_t page = Arena::round_to_pages(1);
    const auto arena = make_arena(3, 5 * kSlotBytes);
    fill_ends(*arena, 0, 1);
    CHECK(arena->populate(2, 4 * page, 10 * page));
    CHECK_EQUAL(arena->resident_bytes(), 12 * page);
    arena->close_descriptor();
    CHECK_EQUAL(arena->resident_bytes(), 12 * page);
}

TEST_CASE(removed_memory_is_free_though_another_process_maps_it) {
    const auto arena = make_arena(2);
    fill_ends(*arena, 0, 5);
    fill_ends(*arena, 1, 5);
    const testing::IdleChild other;
    arena->remove(0, Arena::round_to_pages(1), kSlotBytes - Arena::round_to_pages(1));
    CHECK_EQUAL(arena->resident_bytes(), 3 * Arena::round_to_pages(1));
    CHECK(arena->slot(0)[0] == 5 && arena->slot(0)[kSlotBytes - 1] == 0 && holds(*arena, 1, 5));
    arena->remove_all();
    CHECK(holds(*arena, 0, 0) && holds(*arena, 1, 0));
}

TEST_CASE(an_arena_that_is_moved_is_unmapped_once) {
    int error = 0;
    Arena first = Arena::create(2, kSlotBytes, &error);
    fill_ends(first, 1, 3);
    Arena second = std::move(first);
    Arena third;
    third = std::move(second);
    CHECK(holds(third, 1, 3));
    CHECK(!second.is_mapped());  // NOLINT: a moved arena is empty
}

}  // namespace fastload

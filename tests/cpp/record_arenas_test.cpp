#include "engine/cache/record_arenas.h"

#include "check.h"

namespace fastload {
namespace {

using Place = RecordArenas::Place;

constexpr std::size_t kOneArena = RecordArenas::kArenaBytes;
constexpr std::size_t kLargest = std::size_t{1} << 14;
constexpr std::size_t kLastOfArena = 16368;  // what three of the largest leave

// Takes all of a new arena, in four places.
Place fill_arena(RecordArenas* arenas, std::size_t max_bytes) {
    const Place first = arenas->take(kLargest, max_bytes);
    for (Place i = 1; i < 4; ++i) {
        const Place place = arenas->take(i < 3 ? kLargest : kLastOfArena, max_bytes);
        CHECK_EQUAL(place, static_cast<Place>(first + i * kLargest));
    }
    return first;
}

std::size_t free_units(const RecordArenas& arenas) { return arenas.free_bytes() / RecordArenas::kUnitBytes; }

}  // namespace

TEST_CASE(record_arenas_make_no_more_arenas_than_are_allowed) {
    RecordArenas arenas;
    CHECK_EQUAL(arenas.take(1, kOneArena - 1), RecordArenas::kNone);
    CHECK_EQUAL(arenas.bytes(), 0U);
    CHECK_EQUAL(fill_arena(&arenas, kOneArena), 0U);
    CHECK_EQUAL(arenas.take(1, 2 * kOneArena - 1), RecordArenas::kNone);
    CHECK_EQUAL(arenas.bytes(), kOneArena);
    CHECK_EQUAL(arenas.take(1, 2 * kOneArena), Place{1} << 16);
    CHECK_EQUAL(arenas.bytes(), 2 * kOneArena);
}

TEST_CASE(record_arenas_cut_what_is_little_larger_before_they_use_new_memory) {
    RecordArenas arenas;
    const Place first = arenas.take(100, kOneArena);
    CHECK_EQUAL(arenas.take(50, 0), 100U);
    arenas.give_back(first, 100);
    CHECK_EQUAL(arenas.take(91, 0), 150U);
    CHECK_EQUAL(free_units(arenas), 100U);
    CHECK_EQUAL(arenas.take(92, 0), first);
    CHECK_EQUAL(free_units(arenas), 8U);
    CHECK_EQUAL(arenas.take(8, 0), first + 92);
    CHECK_EQUAL(free_units(arenas), 0U);
}

TEST_CASE(record_arenas_cut_what_is_much_larger_before_they_make_an_arena) {
    RecordArenas arenas;
    fill_arena(&arenas, kOneArena);
    arenas.give_back(kLargest, kLargest);
    CHECK_EQUAL(arenas.take(10, 2 * kOneArena), kLargest);
    CHECK_EQUAL(free_units(arenas), kLargest - 10);
    CHECK_EQUAL(arenas.take(kLargest - 10, 2 * kOneArena), kLargest + 10);
    CHECK_EQUAL(free_units(arenas), 0U);
    CHECK_EQUAL(arenas.bytes(), kOneArena);
}

TEST_CASE(record_arenas_know_every_free_place_of_a_size) {
    RecordArenas arenas;
    for (Place i = 0; i < 6; ++i) CHECK_EQUAL(arenas.take(64, kOneArena), 64 * i);
    for (const Place i : {1U, 3U, 5U}) arenas.give_back(64 * i, 64);
    CHECK_EQUAL(free_units(arenas), 192U);
    for (const Place i : {5U, 3U, 1U}) CHECK_EQUAL(arenas.take(64, 0), 64 * i);
    CHECK_EQUAL(arenas.take(64, 0), 384U);
}

TEST_CASE(record_arenas_have_the_rest_of_an_arena_free) {
    RecordArenas arenas;
    for (Place i = 0; i < 3; ++i) CHECK_EQUAL(arenas.take(kLargest, kOneArena), i * kLargest);
    CHECK_EQUAL(arenas.take(kLargest, kOneArena), RecordArenas::kNone);
    CHECK_EQUAL(free_units(arenas), 0U);  // places may still be cut from it
    CHECK_EQUAL(arenas.take(kLargest, 2 * kOneArena), Place{1} << 16);
    CHECK_EQUAL(free_units(arenas), kLastOfArena);
    CHECK_EQUAL(arenas.take(kLastOfArena, 0), 3 * kLargest);
    CHECK_EQUAL(free_units(arenas), 0U);
}

TEST_CASE(record_arenas_that_restart_hand_the_same_places_out_and_drop_the_rest) {
    RecordArenas arenas;
    for (Place arena = 0; arena < 3; ++arena) fill_arena(&arenas, 3 * kOneArena);
    arenas.give_back(0, kLargest);
    for (const std::uint32_t places : {12U, 5U, 4U, 1U, 0U}) {
        arenas.restart();
        CHECK_EQUAL(free_units(arenas), 0U);
        for (Place i = 0; i < places; ++i) {
            const std::size_t units = i % 4 == 3 ? kLastOfArena : kLargest;
            CHECK_EQUAL(arenas.take(units, 0), i / 4 << 16 | i % 4 * kLargest);
        }
        arenas.drop_unused();
        CHECK_EQUAL(arenas.bytes(), kOneArena * (places == 12 ? 3 : places == 5 ? 2 : 1));
    }
    CHECK_EQUAL(fill_arena(&arenas, 0), 0U);
}

TEST_CASE(record_arenas_without_an_arena_restart) {
    RecordArenas arenas;
    arenas.restart();
    arenas.drop_unused();
    CHECK_EQUAL(arenas.take(1, 0), RecordArenas::kNone);
    CHECK_EQUAL(arenas.take(1, kOneArena), 0U);
}

}  // namespace fastload

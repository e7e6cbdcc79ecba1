#include "engine/cache/hit_pace.h"

#include "check.h"

namespace fastload {
namespace {

void look(HitPace* pace, std::uint64_t hit_ns, std::uint64_t file_ns, int checks) {
    for (int i = 0; i < checks; ++i) pace->count_check(file_ns);
    for (std::uint64_t i = 0; i < HitPace::kHitsOfLook; ++i) pace->count_hit(hit_ns);
}

}  // namespace

TEST_CASE(hit_pace_gives_up_where_records_were_slower_twice_in_a_row) {
    HitPace pace;
    look(&pace, 200, 100, 16);
    CHECK(!pace.is_slower());
    look(&pace, 90, 100, 16);
    look(&pace, 200, 100, 16);
    CHECK(!pace.is_slower());
    look(&pace, 150, 100, 16);
    CHECK(pace.is_slower());
    CHECK_EQUAL(pace.figures().hit_ns, 150.0);
    CHECK_EQUAL(pace.figures().file_ns, 100.0);
    pace.begin_epoch();
    CHECK(!pace.is_slower());
    look(&pace, 200, 100, 16);
    CHECK(!pace.is_slower());
}

TEST_CASE(hit_pace_waits_for_enough_comparisons) {
    HitPace pace;
    for (int i = 0; i < 3; ++i) look(&pace, 200, 100, 2);
    CHECK(!pace.is_slower());
    look(&pace, 200, 100, 2);  // now eight are there
    look(&pace, 200, 100, 8);
    CHECK(pace.is_slower());
}

}  // namespace fastload

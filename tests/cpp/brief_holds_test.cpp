#include "engine/brief_holds.h"

#include <cstdint>

#include "check.h"

namespace fastload {

TEST_CASE(a_brief_hold_is_waited_for_until_it_ends_or_was_none) {
    BriefHolds holds;
    CHECK(!holds.will_end_soon(0));
    const std::int64_t begun = holds.begin(1000);
    CHECK(holds.will_end_soon(1000));
    CHECK(holds.will_end_soon(1000 + BriefHolds::kLongestNs - 1));
    CHECK(!holds.will_end_soon(1000 + BriefHolds::kLongestNs));
    holds.end(begun, 2000);
    CHECK(!holds.will_end_soon(2000));
}

TEST_CASE(a_hold_that_ends_leaves_the_one_that_began_behind_it) {
    BriefHolds holds;
    const std::int64_t first = holds.begin(1000);
    holds.begin(2000);
    holds.end(first, 3000);
    CHECK(holds.will_end_soon(3000));
}

TEST_CASE(holds_that_are_long_on_the_average_are_not_waited_for) {
    BriefHolds holds;
    std::int64_t now = 0;
    const auto hold = [&](std::int64_t length) {
        const std::int64_t begun = holds.begin(now);
        now += length;
        holds.end(begun, now);
    };
    for (int i = 0; i < 20; ++i) hold(BriefHolds::kLongestNs * 50);
    holds.begin(now);
    CHECK(!holds.will_end_soon(now));
    for (int i = 0; i < 20; ++i) hold(BriefHolds::kLongestNs / 4);
    holds.begin(now);
    CHECK(holds.will_end_soon(now));
}

}  // namespace fastload

#include "engine/brief_turns.h"

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "check.h"
#include "forked_child.h"

namespace fastload {
namespace {

std::int64_t take_and_begin(BriefTurns& turns) { return turns.begin(turns.take()); }

std::int64_t begun_ns(std::int64_t turn) { return turn - BriefTurns::kLongestNs; }

// For 3 us.
template <typename Begin, typename End>
void have_turn(BriefTurns& turns, Begin begin, End end) {
    const std::int64_t turn = take_and_begin(turns);
    begin();
    while (BriefTurns::now_ns() < begun_ns(turn) + 3000) {
    }
    end();
    turns.end(turn, BriefTurns::now_ns());
}

// True if `is_so()` is true once in 20 tries: threads may lose their cores.
template <typename IsSo>
bool is_once(IsSo is_so) {
    for (int i = 0; i < 20; ++i) {
        if (is_so()) return true;
    }
    return false;
}

template <typename Wait>
bool is_faster_than(std::int64_t limit_ns, Wait wait) {
    return is_once([&] {
        const std::int64_t begun = BriefTurns::now_ns();
        wait();
        return BriefTurns::now_ns() - begun < limit_ns;
    });
}

// Counts only the calling thread; a thread that waits awake does not count.
long times_slept() {
    rusage usage;
    ::getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
}

// The number of turns that overlapped with another one; each of four threads has `count` turns.
int shared_turns(int count) {
    BriefTurns turns;
    std::atomic<int> at_once{0};
    std::atomic<int> shared{0};
    const auto have_turns = [&] {
        for (int i = 0; i < count; ++i) {
            have_turn(turns, [&] { shared += at_once.fetch_add(1) != 0; }, [&] { at_once.fetch_sub(1); });
        }
    };
    std::thread threads[] = {std::thread(have_turns), std::thread(have_turns), std::thread(have_turns),
                             std::thread(have_turns)};
    for (std::thread& thread : threads) thread.join();
    return shared;
}

}  // namespace

TEST_CASE(threads_have_turns_one_after_the_other) {
    // A thread that loses its core loses its turn, too.
    CHECK(is_once([] { return shared_turns(500) < 20; }));
}

TEST_CASE(a_turn_that_lasts_is_taken_away) {
    BriefTurns turns;
    const std::int64_t first = take_and_begin(turns);
    const std::int64_t second = take_and_begin(turns);
    CHECK(begun_ns(second) >= begun_ns(first) + BriefTurns::kLongestNs);
    turns.end(first, begun_ns(first) + 1);  // by the thread that has lost it: the second one goes on
    CHECK(begun_ns(take_and_begin(turns)) >= begun_ns(second) + BriefTurns::kLongestNs);
}

TEST_CASE(a_turn_that_ends_leaves_it_to_the_next_thread_at_once) {
    BriefTurns turns;
    CHECK(is_faster_than(BriefTurns::kLongestNs / 2, [&] {
        for (int i = 0; i < 3; ++i) {
            const std::int64_t turn = take_and_begin(turns);
            turns.end(turn, begun_ns(turn) + 1);
        }
    }));
}

TEST_CASE(turns_that_are_long_on_average_are_not_waited_for) {
    BriefTurns turns;
    const auto have_turns_of = [&](std::int64_t length) {
        for (int i = 0; i < 20; ++i) {
            const std::int64_t turn = take_and_begin(turns);
            turns.end(turn, begun_ns(turn) + length);
        }
    };
    have_turns_of(BriefTurns::kLongestNs * 50);
    CHECK(is_faster_than(BriefTurns::kLongestNs / 2, [&] {
        take_and_begin(turns);
        take_and_begin(turns);
    }));
    have_turns_of(BriefTurns::kLongestNs / 4);
    const std::int64_t turn = take_and_begin(turns);
    CHECK(begun_ns(take_and_begin(turns)) >= turn);
}

TEST_CASE(a_child_that_was_forked_while_a_thread_was_the_next_one_has_turns) {
    int failed = 0;
    for (int i = 0; i < 5; ++i) {
        BriefTurns turns;
        const std::int64_t end = BriefTurns::now_ns() + 10'000'000;
        std::atomic<int> running{3};
        // Detached, because no thread joins them in the child.
        for (int k = 0; k < 3; ++k) {
            std::thread([&] {
                while (BriefTurns::now_ns() < end) have_turn(turns, [] {}, [] {});
                --running;
            }).detach();
        }
        ::usleep(3000);
        failed += testing::in_forked_child([&] {
            ::usleep(50'000);                                   // the threads have ended
            for (int k = 0; k < 2; ++k) take_and_begin(turns);  // the second one waits for a thread that does not exist
            const long slept = times_slept();
            take_and_begin(turns);
            return times_slept() == slept;
        });
        while (running != 0) ::usleep(1000);
    }
    CHECK_EQUAL(failed, 0);
}

}  // namespace fastload

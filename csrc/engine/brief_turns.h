// Turns of threads at a lock that each needs for a moment.
#pragma once

#include <sched.h>
#include <semaphore.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <ctime>

namespace fastload {

// Who goes back to the GIL from native work, one thread at a time.
//
// Note [turns at the GIL]: A thread that finds the GIL held sleeps until its holder gives it away, and many calls do
// that for a microsecond: opening a file does it seven times, the end of a tensor once. So all that want it have it in
// turns, and each turn costs a wake-up: 16 threads that make images of files on 16 cores then load less than four do.
// So a thread does not touch the GIL until it has its turn here, which it keeps until it is back in native work, after
// some 50 us. The next one waits awake; those behind it sleep.
//
// A turn is over after kLongestNs: who has it may still wait for the GIL, read a slow file with the GIL given away,
// have lost its core, or be gone. And where turns are that long on the average, nobody waits for one.
class BriefTurns {
  public:
    static constexpr std::int64_t kLongestNs = 200'000;
    static constexpr std::int64_t kPatienceNs = 25 * kLongestNs;  // of a thread that sleeps, see wait_to_be_next()

    BriefTurns() noexcept { ::sem_init(&next_, 0, 1); }
    BriefTurns(const BriefTurns&) = delete;
    BriefTurns& operator=(const BriefTurns&) = delete;

    static std::int64_t now_ns() noexcept { return time_ns(CLOCK_MONOTONIC); }

    // Waits for a turn. Returns what begin() takes.
    std::int64_t take() noexcept {
        std::int64_t turn = now_ns() + kLongestNs;
        if (mean_ns_.load(std::memory_order_relaxed) >= kLongestNs || is_taken(turn)) return turn;
        wait_to_be_next();
        // Other threads may have this core meanwhile.
        for (turn = now_ns() + kLongestNs; !is_taken(turn); turn = now_ns() + kLongestNs) ::sched_yield();
        let_another_be_next();
        return turn;
    }

    // The thread has the lock from now on. Returns what end() takes.
    std::int64_t begin(std::int64_t turn) noexcept {
        const std::int64_t begun = now_ns() + kLongestNs;
        turn_.compare_exchange_strong(turn, begun, std::memory_order_relaxed);
        return begun;
    }

    void end(std::int64_t turn, std::int64_t now) noexcept {
        // Two threads may lose one of their lengths here: the mean is a guess.
        const std::int64_t length = std::min(now - (turn - kLongestNs), 2 * kLongestNs);
        const std::int64_t mean = mean_ns_.load(std::memory_order_relaxed);
        mean_ns_.store(mean + (length - mean) / 8, std::memory_order_relaxed);
        turn_.compare_exchange_strong(turn, kNobodys, std::memory_order_relaxed);
    }

  private:
    static constexpr std::int64_t kNobodys = 0;

    static std::int64_t time_ns(clockid_t clock) noexcept {
        timespec time;
        ::clock_gettime(clock, &time);
        return time.tv_sec * kSecondNs + time.tv_nsec;
    }

    bool is_taken(std::int64_t mine) noexcept {
        std::int64_t turn = turn_.load(std::memory_order_relaxed);
        return mine - kLongestNs >= turn && turn_.compare_exchange_strong(turn, mine, std::memory_order_relaxed);
    }

    // Not for ever: in a process that was forked while a thread was the next one, nobody says that it is not any more.
    void wait_to_be_next() noexcept {
        const std::int64_t end = time_ns(CLOCK_REALTIME) + kPatienceNs;
        const timespec limit = {static_cast<time_t>(end / kSecondNs), static_cast<long>(end % kSecondNs)};
        ::sem_timedwait(&next_, &limit);
    }

    void let_another_be_next() noexcept {
        int value = 0;
        if (::sem_getvalue(&next_, &value) == 0 && value == 0) ::sem_post(&next_);
    }

    static constexpr std::int64_t kSecondNs = 1'000'000'000;

    std::atomic<std::int64_t> turn_{kNobodys};  // by when it ends, which tells it from others
    std::atomic<std::int64_t> mean_ns_{0};
    sem_t next_;
};

}  // namespace fastload

// Turns of threads at a lock that each one needs only briefly.
#pragma once

#include <sched.h>
#include <semaphore.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <ctime>

namespace fastload {

// Threads that return to the GIL from native work do so one at a time.
//
// Note [turns at the GIL]: A thread that finds the GIL held sleeps until its holder releases it, and many calls release
// it for a microsecond: opening a file does so seven times, the end of a tensor once. So all waiting threads get it in
// turn, and each turn costs a wake-up; 16 threads that make images from files on 16 cores then load less than four do.
// So a thread does not touch the GIL until it has its turn here, and keeps the turn until it is back in native work,
// about 50 us later. The next thread waits awake; the ones after it sleep.
//
// A turn ends after kLongestNs: its thread may still wait for the GIL, read a slow file with the GIL released, have
// lost its core, or be gone. If turns take that long on average, no thread waits for one.
class BriefTurns {
  public:
    static constexpr std::int64_t kLongestNs = 200'000;
    static constexpr std::int64_t kPatienceNs = 25 * kLongestNs;  // of a sleeping thread, see wait_to_be_next()

    BriefTurns() noexcept { ::sem_init(&next_, 0, 1); }

    static std::int64_t now_ns() noexcept { return time_ns(CLOCK_MONOTONIC); }

    // Waits for a turn. Returns the argument for begin().
    std::int64_t take() noexcept {
        std::int64_t turn = now_ns() + kLongestNs;
        if (mean_ns_.load(std::memory_order_relaxed) >= kLongestNs || is_taken(turn)) return turn;
        wait_to_be_next();
        // Other threads may run on this core meanwhile.
        for (turn = now_ns() + kLongestNs; !is_taken(turn); turn = now_ns() + kLongestNs) ::sched_yield();
        let_another_be_next();
        return turn;
    }

    // Call when the thread has the lock. Returns the argument for end().
    std::int64_t begin(std::int64_t turn) noexcept {
        const std::int64_t begun = now_ns() + kLongestNs;
        turn_.compare_exchange_strong(turn, begun, std::memory_order_relaxed);
        return begun;
    }

    void end(std::int64_t turn, std::int64_t now) noexcept {
        // Two threads may lose one of their lengths here: the mean is only an estimate.
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

    // Not for ever: if the process was forked while a thread was the next one, no thread resets that in the child.
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

    std::atomic<std::int64_t> turn_{kNobodys};  // the time of its end, which also identifies it
    std::atomic<std::int64_t> mean_ns_{0};
    sem_t next_;
};

}  // namespace fastload

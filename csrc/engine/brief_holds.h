// When to wait awake for a lock that is held for moments.
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace fastload {

// What threads do with the GIL between two pieces of native work.
//
// Note [waiting awake]: A thread that finds the GIL held sleeps until its holder gives it away, and many calls do that
// for a microsecond: opening a file does it seven times, the end of a tensor once. So both then have it in turns, and
// each turn costs a wake-up. It is cheaper to wait awake, without touching the GIL, until the other one is back in
// native work; where two threads make images of files, that is after some 50 us.
class BriefHolds {
  public:
    static constexpr std::int64_t kLongestNs = 200'000;

    static std::int64_t now_ns() noexcept {
        return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
            .count();
    }

    // A thread has it from now on. Returns what end() asks for.
    std::int64_t begin(std::int64_t now_ns) noexcept {
        begun_ns_.store(now_ns, std::memory_order_relaxed);
        return now_ns;
    }

    void end(std::int64_t begun_ns, std::int64_t now_ns) noexcept {
        std::int64_t mine = begun_ns;
        begun_ns_.compare_exchange_strong(mine, kNobody, std::memory_order_relaxed);
        // Two threads may lose one of their lengths here: the mean is a guess.
        const std::int64_t length = std::min(now_ns - begun_ns, 2 * kLongestNs);
        const std::int64_t mean = mean_ns_.load(std::memory_order_relaxed);
        mean_ns_.store(mean + (length - mean) / 8, std::memory_order_relaxed);
    }

    // Whether another thread has it, and will probably end within kLongestNs of its beginning.
    bool will_end_soon(std::int64_t now_ns) const noexcept {
        const std::int64_t begun_ns = begun_ns_.load(std::memory_order_relaxed);
        return begun_ns != kNobody && now_ns - begun_ns < kLongestNs &&
               mean_ns_.load(std::memory_order_relaxed) < kLongestNs;
    }

    // Waits while that is so, at most kLongestNs; other threads may have this core meanwhile.
    void wait() const noexcept {
        const std::int64_t begun_ns = now_ns();
        for (std::int64_t now = begun_ns; now - begun_ns < kLongestNs && will_end_soon(now); now = now_ns()) {
            ::sched_yield();
        }
    }

  private:
    static constexpr std::int64_t kNobody = -1;

    std::atomic<std::int64_t> begun_ns_{kNobody};
    std::atomic<std::int64_t> mean_ns_{0};
};

}  // namespace fastload

// Counters of reads from a store.
#pragma once

#include <atomic>
#include <cstdint>

namespace fastload {

// Thread-safe.
class StoreReads {
  public:
    void count_read(std::uint64_t bytes) noexcept {
        failures_in_a_row_.store(0, std::memory_order_relaxed);
        bytes_.fetch_add(bytes, std::memory_order_relaxed);
    }
    // `error` is the system's, or 0 if other data lies there.
    void count_failure(int error) noexcept {
        damaged_.fetch_add(1, std::memory_order_relaxed);
        if (error != 0 && failures_in_a_row_.fetch_add(1, std::memory_order_relaxed) + 1 == kManyFailures) {
            error_.store(error, std::memory_order_relaxed);
        }
    }

    // The system error after which nothing is read any more, because the system refused too often; 0 if there is none.
    int error() const noexcept { return error_.load(std::memory_order_relaxed); }
    std::uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }
    std::uint64_t damaged() const noexcept { return damaged_.load(std::memory_order_relaxed); }

  private:
    static constexpr std::uint32_t kManyFailures = 100;

    std::atomic<std::uint32_t> failures_in_a_row_{0};
    std::atomic<int> error_{0};
    std::atomic<std::uint64_t> bytes_{0};
    std::atomic<std::uint64_t> damaged_{0};
};

}  // namespace fastload

#include "engine/cache/hit_pace.h"

namespace fastload {

void HitPace::count_hit(std::uint64_t nanoseconds) noexcept {
    hit_ns_.fetch_add(nanoseconds, std::memory_order_relaxed);
    if (hits_.fetch_add(1, std::memory_order_relaxed) + 1 == kHitsOfLook) look();
}

void HitPace::count_check(std::uint64_t file_nanoseconds) noexcept {
    file_ns_.fetch_add(file_nanoseconds, std::memory_order_relaxed);
    checks_.fetch_add(1, std::memory_order_relaxed);
}

// Of the thread that counts the last hit; what others count meanwhile belongs to one look or the next.
void HitPace::look() noexcept {
    const std::uint64_t checks = checks_.load(std::memory_order_relaxed);
    const auto hit_ns = static_cast<double>(hit_ns_.exchange(0, std::memory_order_relaxed));
    hits_.store(0, std::memory_order_relaxed);
    if (checks < kMinChecks) return;
    checks_.store(0, std::memory_order_relaxed);
    const auto file_ns = static_cast<double>(file_ns_.exchange(0, std::memory_order_relaxed));
    last_hit_ns_.store(hit_ns / static_cast<double>(kHitsOfLook), std::memory_order_relaxed);
    last_file_ns_.store(file_ns / static_cast<double>(checks), std::memory_order_relaxed);
    if (last_hit_ns_.load(std::memory_order_relaxed) <= last_file_ns_.load(std::memory_order_relaxed)) {
        slower_in_a_row_.store(0, std::memory_order_relaxed);
    } else if (slower_in_a_row_.fetch_add(1, std::memory_order_relaxed) + 1 >= 2) {
        is_slower_.store(true, std::memory_order_relaxed);
    }
}

PaceFigures HitPace::figures() const noexcept {
    return {last_hit_ns_.load(std::memory_order_relaxed), last_file_ns_.load(std::memory_order_relaxed)};
}

void HitPace::begin_epoch() noexcept {
    slower_in_a_row_.store(0, std::memory_order_relaxed);
    is_slower_.store(false, std::memory_order_relaxed);
}

}  // namespace fastload

// Whether records make images faster than their files do.
#pragma once

#include <atomic>
#include <cstdint>

namespace fastload {

struct PaceFigures {
    double hit_ns = 0;   // an image by its record, reading included
    double file_ns = 0;  // one by its file
};

// Records are larger than files. Where these lie in memory and those do not, or on the faster disk, reading a record
// may take longer than decoding a file. Images that are made in both ways, to be compared, tell. Thread-safe.
class HitPace {
  public:
    static constexpr std::uint64_t kHitsOfLook = 4096;
    // Fewer comparisons say little.
    static constexpr std::uint64_t kMinChecks = 8;

    void count_hit(std::uint64_t nanoseconds) noexcept;
    // One that was made by its file as well.
    void count_check(std::uint64_t file_nanoseconds) noexcept;

    // True once records were slower in two looks in a row, until begin_epoch().
    bool is_slower() const noexcept { return is_slower_.load(std::memory_order_relaxed); }
    PaceFigures figures() const noexcept;
    void begin_epoch() noexcept;

  private:
    void look() noexcept;

    std::atomic<std::uint64_t> hits_{0};
    std::atomic<std::uint64_t> hit_ns_{0};
    std::atomic<std::uint64_t> checks_{0};
    std::atomic<std::uint64_t> file_ns_{0};
    std::atomic<std::uint32_t> slower_in_a_row_{0};
    std::atomic<bool> is_slower_{false};
    std::atomic<double> last_hit_ns_{0};
    std::atomic<double> last_file_ns_{0};
};

}  // namespace fastload

// How long a stage takes.
#pragma once

#include <chrono>
#include <cstdint>

namespace fastload {

// Adds the time from its construction to its destruction to *sum_ns.
class StageTimer {
  public:
    explicit StageTimer(std::uint64_t* sum_ns) noexcept : sum_ns_(sum_ns) {}
    ~StageTimer() { *sum_ns_ += static_cast<std::uint64_t>((std::chrono::steady_clock::now() - begin_).count()); }
    StageTimer(const StageTimer&) = delete;  // a scope, not a value
    StageTimer& operator=(const StageTimer&) = delete;

  private:
    std::uint64_t* const sum_ns_;
    const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace fastload

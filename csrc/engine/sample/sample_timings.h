// Times of the stages of a sample.
#pragma once

#include <chrono>
#include <cstdint>

namespace fastload {

// Nanoseconds that samples spent in each stage.
struct SampleTimings {
    std::uint64_t read_ns = 0;
    std::uint64_t header_ns = 0;
    std::uint64_t cache_ns = 0;   // looking for what is known of the file, and keeping what was found out
    std::uint64_t record_ns = 0;  // of that: reading a record in place of the file
    std::uint64_t decode_ns = 0;
    std::uint64_t transform_ns = 0;
    std::uint64_t fallback_ns = 0;  // in the reference decoder
    std::uint64_t bytes_read = 0;

    // Waiting for storage, or for memory.
    std::uint64_t storage_ns() const noexcept { return read_ns + record_ns; }

    void add(const SampleTimings& sample) noexcept {
        read_ns += sample.read_ns;
        header_ns += sample.header_ns;
        cache_ns += sample.cache_ns;
        record_ns += sample.record_ns;
        decode_ns += sample.decode_ns;
        transform_ns += sample.transform_ns;
        fallback_ns += sample.fallback_ns;
        bytes_read += sample.bytes_read;
    }
};

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

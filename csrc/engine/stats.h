// Counters and times of the engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "engine/sample/sample_timings.h"

namespace fastload {

struct EngineCounters {
    std::uint64_t samples_native = 0;    // decoded by the native decoder
    std::uint64_t samples_fallback = 0;  // decoded by the reference decoder
    std::uint64_t samples_failed = 0;
    std::uint64_t batches_delivered = 0;
    SampleTimings stages;              // sums over all samples and threads
    std::uint64_t worker_wait_ns = 0;  // time that threads waited for work, summed over threads
    std::uint64_t scratch_bytes = 0;   // held by threads when they last reported
    std::map<std::string, std::uint64_t> fallback_reasons;
};

// Thread-safe sums. One lock per sample: samples take milliseconds.
class Stats {
  public:
    // Calls `change(EngineCounters&)` under the lock.
    template <typename Change>
    void update(Change&& change) {
        const std::lock_guard<std::mutex> lock(mutex_);
        change(counters_);
    }

    EngineCounters snapshot() const {
        const std::lock_guard<std::mutex> lock(mutex_);
        return counters_;
    }

  private:
    mutable std::mutex mutex_;
    EngineCounters counters_;
};

}  // namespace fastload

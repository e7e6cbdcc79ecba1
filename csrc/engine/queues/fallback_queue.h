// Samples that wait for the reference decoder.
#pragma once

#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>

#include "engine/queues/work_queue.h"

namespace fastload {

// Thread-safe. The waiting threads belong to Python and have released the GIL; this queue never takes it.
class FallbackQueue {
  public:
    // Takes the samples out of the list. After close() they are dropped.
    void push(std::list<PendingSample> samples) noexcept;

    // Waits without a limit; returns nullopt after close().
    std::optional<PendingSample> wait();

    void remove(const DrawLane* lane) noexcept;

    // Wakes every waiter once. Afterwards wait() returns at once and no thread is woken: a thread woken while the
    // interpreter shuts down would end the process.
    void close() noexcept;

    std::size_t size() const;

  private:
    mutable std::mutex mutex_;
    std::condition_variable sample_arrived_;
    std::list<PendingSample> samples_;
    bool is_closed_ = false;
};

}  // namespace fastload

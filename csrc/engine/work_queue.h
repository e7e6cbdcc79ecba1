// Hands samples to threads: oldest batch first, one sample at a time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>

#include "engine/batch_slot.h"

namespace fastload {

class Stream;

// A sample on its way, with what keeps its memory alive.
struct PendingSample {
    std::shared_ptr<Stream> stream;
    std::shared_ptr<BatchSlot> slot;
    std::size_t position = 0;
    // For samples that the native decoder left: why, when the reference decoder took it, and the pixels it gave, which
    // `pixels_owner` keeps (null: none yet).
    Status reason;
    std::chrono::steady_clock::time_point taken_at;
    PackedImageView pixels;
    std::shared_ptr<void> pixels_owner;
};

// Thread-safe. Several streams share it: their batches are served in the order of submission. Lists, because their
// nodes are made before anything is queued: afterwards nothing can fail.
class WorkQueue {
  public:
    struct Entry {
        std::shared_ptr<Stream> stream;
        std::shared_ptr<BatchSlot> slot;
    };

    // Takes the entries out of `batches`. After close() they are dropped.
    void push(std::list<Entry> batches) noexcept;

    // Takes samples out of the list that were handed out before and come again; they are served first.
    void push_again(std::list<PendingSample> samples) noexcept;

    // Waits for a sample; nullopt after close(). Adds the time waited to *waited_ns.
    std::optional<PendingSample> take(std::uint64_t* waited_ns);

    // Forgets the samples of `stream` that no thread has taken.
    void remove(const Stream* stream) noexcept;

    // Wakes every thread and lets take() return nullopt from now on.
    void close() noexcept;
    bool is_closed() const;

  private:
    mutable std::mutex mutex_;
    std::condition_variable work_arrived_;
    std::list<PendingSample> again_;
    std::list<Entry> entries_;
    bool is_closed_ = false;
};

}  // namespace fastload

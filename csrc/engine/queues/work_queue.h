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

#include "engine/batch/batch_slot.h"

namespace fastload {

class Lane;

// A sample on its way, with what keeps its memory alive.
struct PendingSample {
    std::shared_ptr<Lane> lane;
    std::shared_ptr<BatchSlot> slot;
    std::size_t position = 0;
    // For samples that the native decoder left: why, when the reference decoder took it, and the pixels it gave, which
    // `pixels_owner` keeps (null: none yet).
    Status reason;
    std::chrono::steady_clock::time_point taken_at;
    PackedImageView pixels;
    std::shared_ptr<void> pixels_owner;
};

// Note [reading ahead]
// A thread reads a file, decodes it and goes on to the next one: from a warm cache that is best, since the bytes are in
// the processor's cache when they are decoded. From storage that answers late, threads would mostly wait. So the queue
// watches how long reads take, and where they take long it lets readers in: threads that take samples in the order of
// the queue, read them, and give them back to be decoded. Where a record stands for the file that is the whole record,
// whose rows could be read alone when the choices are made. Nobody waits for them: a thread that finds no sample read
// takes the next one itself.
//
// Thread-safe. Several lanes share it: their batches are served in the order of submission. Lists, because their
// nodes are made before anything is queued: afterwards nothing can fail.
class WorkQueue {
  public:
    enum class End : std::uint8_t { kBack, kFront };

    struct Entry {
        std::shared_ptr<Lane> lane;
        std::shared_ptr<BatchSlot> slot;
    };

    explicit WorkQueue(const SampleFiles& files) noexcept : files_(files) {}

    // Takes the entries out of `batches`. After close() they are dropped. At the front are those that are waited for.
    void push(std::list<Entry> batches, End end = End::kBack) noexcept;

    // A list of this sample, for push_again() or push_read(); its node is one that take() has emptied, where there is
    // one. May throw std::bad_alloc.
    std::list<PendingSample> list_of(PendingSample sample);

    // Takes samples out of the list that were handed out before and come again; they are served first.
    void push_again(std::list<PendingSample> samples) noexcept;

    // Whether take() need not wait, now or within `patience`.
    bool has_work_within(std::chrono::milliseconds patience);

    // Waits for a sample; nullopt after close(). Adds the time waited to *waited_ns.
    std::optional<PendingSample> take(std::uint64_t* waited_ns);

    // For readers: waits until reads take long and a sample should be read ahead; nullopt after close(). Every sample
    // comes back through push_read() or is dropped by it.
    std::optional<PendingSample> take_to_read();
    // A sample that was read, as a list of one; an empty list for one that is not needed any more.
    void push_read(std::list<PendingSample> sample) noexcept;

    // Tells how long reading a file or a record took (0: there was none). True when reads have come to take long: then
    // the caller starts readers, which may be `max_samples` ahead. True only once.
    bool note_read(std::uint64_t read_ns, std::size_t max_samples) noexcept;

    // Forgets the samples of `lane` that no thread has taken.
    void remove(const Lane* lane) noexcept;

    // Wakes every thread and lets take() return nullopt from now on.
    void close() noexcept;
    bool is_closed() const;

  private:
    PendingSample take_next();                // under mutex_, with entries_ not empty
    bool should_read_ahead() const noexcept;  // under mutex_

    const SampleFiles& files_;
    mutable std::mutex mutex_;
    std::condition_variable work_arrived_;
    std::condition_variable may_read_ahead_;
    std::uint64_t read_ns_ = 0;       // of late, on average
    std::size_t read_ahead_ = 0;      // samples
    std::size_t num_being_read_ = 0;  // by readers
    std::list<PendingSample> again_;
    std::list<PendingSample> spare_nodes_;  // without samples
    std::list<Entry> entries_;
    bool is_closed_ = false;
};

}  // namespace fastload

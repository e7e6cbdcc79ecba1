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

class DrawLane;

// A sample in flight, with references that keep its memory alive.
struct PendingSample {
    std::shared_ptr<DrawLane> lane;
    std::shared_ptr<BatchSlot> slot;
    std::size_t position = 0;
    // For samples that the native decoder did not decode: the reason, the time when the reference decoder took it, and
    // the pixels it returned, which `pixels_owner` keeps (null: none yet).
    Status reason;
    std::chrono::steady_clock::time_point taken_at;
    PackedImageView pixels;
    std::shared_ptr<void> pixels_owner;
};

// Moves the items of `lane` out of `items`. Their last reference may free a batch: drop them after the lock.
template <typename Item>
std::list<Item> take_items_of(const DrawLane* lane, std::list<Item>* items) noexcept {
    std::list<Item> taken;
    for (auto item = items->begin(); item != items->end();) {
        const auto candidate = item++;
        if (candidate->lane.get() == lane) taken.splice(taken.end(), *items, candidate);
    }
    return taken;
}

// Note [reading ahead]
// A thread reads a file, decodes it and goes on to the next one. From a warm cache that is best, because the bytes are
// in the processor's cache when they are decoded. From slow storage, threads would mostly wait. So the queue measures
// how long reads take, and if they take long it lets readers in: threads that take samples in the order of the queue,
// read them, and give them back to be decoded. If a file has a record, they read the whole record, whose rows could be
// read alone once the choices are made. No thread waits for readers: a thread that finds no sample read takes the next
// one itself.
//
// Thread-safe. Several lanes share it: their batches are served in the order of submission. Lists, because their nodes
// are made before anything is queued: afterwards nothing can fail.
class WorkQueue {
  public:
    enum class End : std::uint8_t { kBack, kFront };

    struct Entry {
        std::shared_ptr<DrawLane> lane;
        std::shared_ptr<BatchSlot> slot;
    };

    explicit WorkQueue(const SampleFiles& files) noexcept : files_(files) {}

    // Takes the entries out of `batches`. After close() they are dropped. kFront is for batches that are waited for.
    void push(std::list<Entry> batches, End end = End::kBack) noexcept;

    // Returns a list with this sample, for push_again() or push_read(). Its node is one that take() has emptied, if
    // there is one. May throw std::bad_alloc.
    std::list<PendingSample> list_of(PendingSample sample);

    // Takes samples that were handed out before out of the list and queues them again; they are served first.
    void push_again(std::list<PendingSample> samples) noexcept;

    // True if take() need not wait, now or within `patience`.
    bool has_work_within(std::chrono::milliseconds patience);

    // Waits for a sample; returns nullopt after close(). Adds the time waited to *waited_ns.
    std::optional<PendingSample> take(std::uint64_t* waited_ns);

    // For readers: waits until reads take long and a sample should be read ahead; returns nullopt after close(). Every
    // sample returns through push_read() or is dropped by it.
    std::optional<PendingSample> take_to_read();
    // Takes a sample that was read, as a list of one; an empty list for a sample that is no longer needed.
    void push_read(std::list<PendingSample> sample) noexcept;

    // Records the time that reading a file or a record took (0: nothing was read). Returns true when reads have come to
    // take long: then the caller starts readers, which may be `max_samples` ahead. True only once.
    bool note_read(std::uint64_t read_ns, std::size_t max_samples) noexcept;

    // Drops the samples of `lane` that no thread has taken.
    void remove(const DrawLane* lane) noexcept;

    // Wakes every thread; take() returns nullopt from now on.
    void close() noexcept;
    bool is_closed() const;

  private:
    PendingSample take_next();                // under mutex_, with entries_ not empty
    bool should_read_ahead() const noexcept;  // under mutex_

    const SampleFiles& files_;
    mutable std::mutex mutex_;
    std::condition_variable work_arrived_;
    std::condition_variable may_read_ahead_;
    std::uint64_t read_ns_ = 0;       // recent average
    std::size_t read_ahead_ = 0;      // number of samples
    std::size_t num_being_read_ = 0;  // by readers
    std::list<PendingSample> again_;
    std::list<PendingSample> spare_nodes_;  // without samples
    std::list<Entry> entries_;
    bool is_closed_ = false;
};

// Samples that wait for the reference decoder. Thread-safe. The waiting threads belong to Python and have released the
// GIL; this queue never takes it.
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

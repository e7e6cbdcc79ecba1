// The batches of an iteration that draw from one generator: all batches, or the batches of one of torch's workers.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/span.h"
#include "engine/batch/batch_slot.h"
#include "engine/engine_core.h"
#include "engine/queues/draw_order.h"

namespace fastload {

enum class WaitResult : std::uint8_t {
    kReady,            // take_ready() will return the next batch
    kTimedOut,         // nothing yet
    kNeedsPython,      // only without threads: the caller must provide the pixels of *needs_python
    kNothingInFlight,  // every submitted batch was taken
    kClosed,           // cancelled, or the engine was closed, and a batch was lost
    kFault,            // a thread failed; see fault()
};

// A batch to be loaded.
struct NewBatch {
    Span<const std::int64_t> indices;             // of its samples; each lies in [0, num_samples())
    Span<std::uint8_t* const> images;             // for each view of the source, room for all samples
    std::shared_ptr<void> memory;                 // keeps that room valid until nothing needs it: Note [slot lifetime]
    std::shared_ptr<BatchCopy> copy = {};         // notified before the batch can be taken, unless a sample has failed
    Span<const std::uint32_t> draw_numbers = {};  // one for each sample, or none: Note [counter layout]
};

// Thread-safe, except that without threads one caller at a time may be inside wait().
class DrawLane final : public EngineClient, public std::enable_shared_from_this<DrawLane> {
  public:
    DrawLane(std::shared_ptr<EngineCore> core, SampleSource source);

    // A lane ends with its engine. If the engine is already closed, the lane is cancelled.
    static std::shared_ptr<DrawLane> open(std::shared_ptr<EngineCore> core, SampleSource source);

    // Queues a batch. A closed lane queues nothing. May throw std::bad_alloc, and has queued nothing then.
    void submit(const NewBatch& batch);

    // Does the same for a batch that is to be taken next, before the ones in flight. If draws have an order, nothing
    // may be in flight. `lost_draws` are sorted by position: Note [draw order].
    void submit_first(const NewBatch& batch, Span<const LostDraws> lost_draws);

    // Waits until the oldest batch is complete, at most about `budget`. Without threads it does the work itself, sample
    // by sample, and looks at the clock between two of them; a sample whose *needs_python was dropped is begun anew.
    // May throw std::bad_alloc, only without threads, and may then be called again.
    WaitResult wait(std::chrono::milliseconds budget, PendingSample* needs_python);

    // Takes the oldest batch, after wait() returned kReady. Moves its memory to *memory.
    std::shared_ptr<BatchSlot> take_ready(std::shared_ptr<void>* memory);

    // Returns a taken slot for reuse when its report is no longer needed.
    void recycle(std::shared_ptr<BatchSlot> slot) noexcept;

    // Drops everything in flight. Never waits: samples in work end by themselves, and their results are dropped.
    void cancel() noexcept override;
    bool is_cancelled() const noexcept { return is_cancelled_.load(std::memory_order_relaxed); }

    // For threads: does the work of one sample, then its bookkeeping. A sample for which there is no memory fails.
    // Returns the nanoseconds that reading it took, 0 if it was not read.
    std::uint64_t run_sample(PendingSample sample, SampleWorker& worker) noexcept;

    // For threads that only read: reads the sample's file, with which the sample then goes to run_sample(). Returns the
    // nanoseconds that took.
    std::uint64_t read_ahead(const PendingSample& sample, SampleWorker& worker) noexcept;

    // For the reference decoder, once a sample: with its pixels, or the reason why there are none. complete() may throw
    // std::bad_alloc; then the sample is still unfinished.
    void complete(PendingSample sample);
    void fail(const PendingSample& sample, Status status, std::shared_ptr<void> python_error) noexcept;
    // The reference decoder drops the sample without a result: it fails or, without threads, is begun anew.
    void drop(const PendingSample& sample) noexcept;

    // The engine lost a thread: every wait ends with kFault.
    void set_fault(Status status) noexcept override;
    Status fault() const;

    const SampleSource& source() const noexcept { return source_; }
    EngineCore& core() const noexcept { return *core_; }
    const std::shared_ptr<EngineCore>& shared_core() const noexcept { return core_; }
    // The owners of the memory of the batches in flight, in order.
    std::vector<std::shared_ptr<void>> memory_in_flight() const;
    std::size_t batches_in_flight() const override;
    std::size_t batches_ready() const override;

    // Sets the generator for the next batch. Call only with torch's random numbers, without threads and with nothing in
    // flight.
    void set_draws(const TorchDraws& draws) noexcept;

    // The state of torch's generator after `slot`, a batch that was taken; nothing if draws have no order.
    std::optional<TorchDraws> draws_after(const BatchSlot& slot) const;

    // Its state before the first batch that was not taken, even after a cancel; and before `slot`, a batch that was
    // taken: DrawOrder::draws_before.
    std::optional<TorchDraws> draws_untaken() const;
    std::optional<TorchDraws> draws_before(const BatchSlot& slot) const;

  private:
    // The random choices of one sample while a thread works on it.
    class Choices;

    SampleTask task_of(const PendingSample& sample, SampleChoices* choices) const;
    Status load(const PendingSample& sample, SampleWorker& worker, SampleTimings* timings);  // may throw std::bad_alloc
    void leave_to_fallback(const PendingSample& sample, Status reason);                      // may throw std::bad_alloc
    void ensure_file(const PendingSample& sample);                                           // may throw std::bad_alloc
    void give_file_back(const PendingSample& sample) noexcept;
    Status resolve_in_order(const PendingSample& sample, ImageSize source_size) noexcept;
    void count_run(const SampleTimings& timings, Status status);
    void finish(const PendingSample& sample, Status status, std::shared_ptr<void> python_error) noexcept;
    WaitResult result_of_close() const;  // under mutex_
    WaitResult wait_for_threads(std::chrono::milliseconds budget);
    WaitResult run_in_caller(std::chrono::milliseconds budget, PendingSample* needs_python);
    std::shared_ptr<BatchSlot> free_slot();
    std::shared_ptr<BatchSlot> slot_for(const NewBatch& batch);
    void queue(std::shared_ptr<BatchSlot> slot, WorkQueue::End end);
    bool is_front_ready() const;  // under mutex_

    const std::shared_ptr<EngineCore> core_;
    const SampleSource source_;
    // Set once; tasks read it between stages without the lock. Relaxed: it only saves work.
    std::atomic<bool> is_cancelled_{false};

    mutable std::mutex mutex_;
    std::condition_variable batch_ready_;
    std::list<std::shared_ptr<BatchSlot>> in_flight_;  // in order of submission
    bool is_cut_short_ = false;                        // a batch was dropped or refused
    std::vector<std::shared_ptr<BatchSlot>> free_slots_;
    DrawOrder draw_order_;
    Status fault_;
};

}  // namespace fastload

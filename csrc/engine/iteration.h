// One iteration over a dataset: batches are submitted as lists of sample indices and come out filled, in order.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "engine/draw_lane.h"

namespace fastload {

// It has one lane; or, with torch's random numbers, one for each worker that torch would have: batch k belongs to lane
// k mod N, as in torch. Not thread-safe, except where a lane is: one thread at a time submits, takes or restarts.
class Iteration {
  public:
    // Opens a lane for each source, at least one. The first batch belongs to lane `first_lane`.
    Iteration(std::shared_ptr<EngineCore> core, std::vector<SampleSource> sources, std::size_t first_lane = 0);

    // Queues the next batch: DrawLane::submit.
    void submit(const NewBatch& batch);

    // The lane of the next batch in order.
    const std::shared_ptr<DrawLane>& current() const noexcept { return lanes_[num_taken_ % lanes_.size()]; }

    // Takes the next batch in order after current()->wait() returned kReady: DrawLane::take_ready. Null if another
    // thread was faster.
    std::shared_ptr<BatchSlot> take_ready(std::shared_ptr<void>* memory);

    // Replaces `lane`, one of these, by a new lane that draws from `draws` on, and returns the new one. Batches in
    // flight are dropped: submit them to the new lane, in order. Returns null if `lane` was already replaced, or is
    // cancelled; a cancelled lane stays, to report what was lost.
    std::shared_ptr<DrawLane> restart(const DrawLane& lane, const TorchDraws& draws);

    // Makes the batch that was taken last, `slot` of `lane`, the next one again. Returns the lane to which to submit it
    // by submit_first(). If draws have an order, that is a new lane instead of `lane`, which draws from before the
    // batch on; batches in flight are dropped: submit them after it. Returns null if `lane` is cancelled.
    std::shared_ptr<DrawLane> take_back(const DrawLane& lane, const BatchSlot& slot);

    // DrawLane::draws_untaken of each lane; nothing if draws have no order.
    std::vector<TorchDraws> draws_untaken() const;

    // The next batch belongs to the first lane again. Call only with nothing in flight.
    void begin_epoch() noexcept { num_submitted_ = num_taken_ = 0; }

    void cancel() noexcept;

    // Any of the lanes, for what they share.
    DrawLane& front() const noexcept { return *lanes_.front(); }
    std::size_t batches_in_flight() const;

    // The owners of the memory of the first `count` batches in flight, in the order in which they will be taken.
    std::vector<std::shared_ptr<void>> memory_in_flight(std::size_t count) const;

  private:
    std::vector<std::shared_ptr<DrawLane>> lanes_;
    std::size_t num_submitted_ = 0;
    std::size_t num_taken_ = 0;
};

}  // namespace fastload

// One iteration over a dataset: batches go in as lists of sample indices and come out filled, in order.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/span.h"
#include "engine/lane.h"

namespace fastload {

// It has one lane; or with torch's random numbers one for each worker that torch would have: batch k belongs to lane
// k mod N, as in torch. Not thread-safe, except where a lane is: one thread at a time submits, takes or restarts.
class Iteration {
  public:
    // Opens a lane for each source, at least one. The first batch belongs to lane `first_lane`, one of these.
    Iteration(std::shared_ptr<EngineCore> core, std::vector<SampleSource> sources, std::size_t first_lane = 0);

    // Queues the next batch: Lane::submit.
    void submit(Span<const std::int64_t> indices, Span<std::uint8_t* const> images, std::shared_ptr<void> memory,
                std::shared_ptr<BatchCopy> copy = nullptr, Span<const std::uint32_t> draw_numbers = {});

    // The lane of the batch whose turn it is.
    const std::shared_ptr<Lane>& current() const noexcept { return lanes_[num_taken_ % lanes_.size()]; }

    // Takes the batch whose turn it is after current()->wait() returned kReady: Lane::take_ready. Null where another
    // thread was faster.
    std::shared_ptr<BatchSlot> take_ready(std::shared_ptr<void>* memory);

    // Replaces `lane`, one of these, by a new one that draws from `draws` on, and returns that. Batches in flight are
    // dropped: submit them to the new one, in order. Null where `lane` is none of these any more, or is cancelled:
    // then it stays, to say what was lost.
    std::shared_ptr<Lane> restart(const Lane& lane, const TorchDraws& draws);

    // The batch that was taken last, `slot` of `lane`, comes again: its turn is the next. Gives the lane for it, to be
    // submitted there by submit_first(). With draws in order that is a new one in the place of `lane`, which draws from
    // before the batch on; batches in flight are dropped: submit them behind it. Null where `lane` is cancelled.
    std::shared_ptr<Lane> take_back(const Lane& lane, const BatchSlot& slot);

    // Of each lane Lane::draws_untaken; nothing where no draws are in order.
    std::vector<TorchDraws> draws_untaken() const;

    // The next batch belongs to the first lane again. Nothing may be in flight.
    void begin_epoch() noexcept { num_submitted_ = num_taken_ = 0; }

    void cancel() noexcept;

    // Any of them: what they share is the same.
    Lane& front() const noexcept { return *lanes_.front(); }
    std::size_t batches_in_flight() const;

    // The owners of the memory of the first `count` batches in flight, in the order in which they are taken.
    std::vector<std::shared_ptr<void>> memory_in_flight(std::size_t count) const;

  private:
    std::vector<std::shared_ptr<Lane>> lanes_;
    std::size_t num_submitted_ = 0;
    std::size_t num_taken_ = 0;
};

}  // namespace fastload

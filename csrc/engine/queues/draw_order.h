// The random numbers of a lane's samples, drawn in the order in which one of torch's workers draws them.
#pragma once

#include <cstddef>
#include <list>
#include <memory>

#include "engine/batch/batch_slot.h"
#include "engine/queues/work_queue.h"
#include "engine/sample/sample_task.h"

namespace fastload {

// Note [draw order]
// A worker of torch loads and transforms one sample after the other, and all of them draw from one generator; the
// number of draws depends on the size of the sample's image. Here threads load the samples of a batch at the same time.
// So a thread that has read a size notes it, and then every sample whose predecessors have drawn draws: mostly just
// this one. A sample that has to wait is parked, and its thread takes another one. The thread that makes its turn come
// queues it again, to start over from its file (which is in the page cache by then) or from the pixels that Pillow
// returned. A sample that fails draws nothing, and in torch the samples after it in its batch draw nothing either;
// later batches begin where it stopped. Here those samples have drawn by the time a failure may show. So the consumer
// of a batch with an error cancels the lane and opens another one with draws_after() that batch, for the batches after
// it.
//
// If failed samples are replaced or left out, torch goes on after them and draws for the others. So the consumer of a
// batch with errors opens another lane with draws_before() it, and submits to that lane the batch without these
// samples, before the later ones. A sample that failed in its own choices has drawn until then; the batch's lost_draws
// repeat these draws. It failed with numbers drawn after another sample that should not have drawn: if it does not fail
// now, it is one of the slot's `revived`, and belongs into the batch again.
//
// Not thread-safe: the lane's mutex guards it, with the slots.
class DrawOrder {
  public:
    // `source` outlives this object.
    explicit DrawOrder(const SampleSource& source) noexcept : source_(source), draws_(source.torch_draws) {}

    // False if nothing is drawn or the draws come from the counter: then no sample waits for another.
    bool is_needed() const noexcept { return draws_.has_value() && source_.is_random(); }

    // The generator's state for the samples that have not drawn.
    void set_draws(const TorchDraws& draws) noexcept { draws_ = draws; }

    // Parks samples that wait for their turn.
    void park(std::list<PendingSample> samples) noexcept { parked_.splice(parked_.end(), samples); }

    // Draws for every sample whose turn has come; `batches` are all that are in flight, in order. Adds the parked
    // samples among them to *resumed.
    void advance(const std::list<std::shared_ptr<BatchSlot>>& batches, std::list<PendingSample>* resumed) noexcept;

    // Returns the parked samples and forgets them.
    std::list<PendingSample> drop_parked() noexcept { return std::move(parked_); }

    // The state of torch's generator after a batch that was delivered. May throw std::bad_alloc.
    TorchDraws draws_after(const BatchSlot& slot) const;

    // The state before the first of `batches` (as above), from which a worker that has made none of them draws. Nothing
    // if draws have no order.
    std::optional<TorchDraws> draws_before(const std::list<std::shared_ptr<BatchSlot>>& batches) const noexcept;

    // The same for a batch that was delivered.
    std::optional<TorchDraws> draws_before(const BatchSlot& slot) const noexcept;

    // Call when these batches are dropped: their samples have not drawn, either.
    void rewind(const std::list<std::shared_ptr<BatchSlot>>& batches) noexcept;

  private:
    bool advance(BatchSlot& slot, std::list<PendingSample>* resumed) noexcept;
    void draw_lost(BatchSlot& slot) noexcept;
    void resume(const BatchSlot& slot, std::size_t position, std::list<PendingSample>* resumed) noexcept;

    const SampleSource& source_;
    std::optional<TorchDraws> draws_;
    std::list<PendingSample> parked_;
};

}  // namespace fastload

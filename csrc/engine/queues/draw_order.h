// The random numbers of a lane's samples, drawn in the order in which a worker of torch draws them.
#pragma once

#include <cstddef>
#include <list>
#include <memory>

#include "engine/batch/batch_slot.h"
#include "engine/queues/work_queue.h"
#include "engine/sample/sample_task.h"

namespace fastload {

// Note [draw order]
// A worker of torch loads and transforms one sample after the other, and all of them draw from one generator; how many
// numbers a sample takes depends on the size of its image. Here threads load the samples of a batch at the same time.
// So a thread that has read a size notes it, and then every sample whose predecessors have drawn draws: mostly just
// this one. A sample that has to wait is parked, and its thread takes another one; whoever makes its turn come queues
// it to be begun again, from its file (which the system has in memory by then) or from the pixels Pillow gave. A sample
// that fails draws nothing, and in torch neither do those behind it in its batch; later batches begin where it stopped.
// Here those have drawn by the time a failure may show. So whoever is handed a batch with an error cancels the lane
// and opens another one with draws_after() that batch, for the batches behind it.
//
// Where others stand in for samples that fail, or these are left out, torch goes on behind them, and draws for the
// others. So whoever is handed a batch with errors opens another lane with draws_before() it, and submits to that the
// batch without these samples, in front of those behind it. A sample that failed in its own choices has drawn until
// then, which the batch's lost_draws do again. It failed with what it drew behind another one that should not have
// drawn: where it does not fail now it is one of the slot's `revived`, and belongs into the batch again.
//
// Not thread-safe: the lane's mutex guards it, with the slots.
class DrawOrder {
  public:
    // `source` outlives this object.
    explicit DrawOrder(const SampleSource& source) noexcept : source_(source), draws_(source.torch_draws) {}

    // False where nothing is drawn or the counter makes the draws: then no sample waits for another.
    bool is_needed() const noexcept { return draws_.has_value() && source_.is_random(); }

    // The generator's state for the samples that have not drawn.
    void set_draws(const TorchDraws& draws) noexcept { draws_ = draws; }

    // Parks samples that wait for their turn.
    void park(std::list<PendingSample> samples) noexcept { parked_.splice(parked_.end(), samples); }

    // Draws for every sample of `batches` (all that are in flight, in order) whose turn has come; adds those that were
    // parked among them to *resumed.
    void advance(const std::list<std::shared_ptr<BatchSlot>>& batches, std::list<PendingSample>* resumed) noexcept;

    // Lets go of the samples that wait.
    std::list<PendingSample> drop_parked() noexcept { return std::move(parked_); }

    // Where torch's generator is after a batch that was delivered. May throw std::bad_alloc.
    TorchDraws draws_after(const BatchSlot& slot) const;

    // Where it is before the first of `batches` (as above): that of a worker which has made none of them. Nothing where
    // no draws are in order.
    std::optional<TorchDraws> draws_before(const std::list<std::shared_ptr<BatchSlot>>& batches) const noexcept;

    // The same for a batch that was delivered.
    std::optional<TorchDraws> draws_before(const BatchSlot& slot) const noexcept;

    // Those batches are dropped: the samples that have not drawn are theirs as well.
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

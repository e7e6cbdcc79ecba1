#include "engine/queues/draw_order.h"

#include <algorithm>

namespace fastload {

void DrawOrder::advance(const std::list<std::shared_ptr<BatchSlot>>& batches,
                        std::list<PendingSample>* resumed) noexcept {
    for (const std::shared_ptr<BatchSlot>& slot : batches) {
        if (!advance(*slot, resumed)) return;
    }
}

// True when all samples of the batch have drawn.
bool DrawOrder::advance(BatchSlot& slot, std::list<PendingSample>* resumed) noexcept {
    if (slot.num_drawn == 0) slot.draws_before = draws_->stream();
    for (; slot.num_drawn < slot.turns.size(); ++slot.num_drawn) {
        SampleTurn& turn = slot.turns[slot.num_drawn];
        if (turn.is_lost) continue;
        if (!turn.has_size) return false;
        SampleReport& report = slot.reports[slot.num_drawn];
        turn.status = source_.resolve(&*draws_, report.source_size, &report);
        turn.has_drawn = true;
        if (turn.is_parked) resume(slot, slot.num_drawn, resumed);
    }
    return true;
}

void DrawOrder::resume(const BatchSlot& slot, std::size_t position, std::list<PendingSample>* resumed) noexcept {
    const auto found = std::find_if(parked_.begin(), parked_.end(), [&](const PendingSample& sample) {
        return sample.slot.get() == &slot && sample.position == position;
    });
    if (found != parked_.end()) resumed->splice(resumed->end(), parked_, found);
}

TorchDraws DrawOrder::draws_after(const BatchSlot& slot) const {
    TorchDraws draws = *draws_;
    draws.stream() = slot.draws_before;
    const std::size_t end = slot.first_error ? slot.first_error->position : slot.turns.size();
    SampleReport again;
    again.reset(source_);
    const auto draw = [&](std::size_t position) {
        // The result is known; only the draws matter.
        static_cast<void>(source_.resolve(&draws, slot.reports[position].source_size, &again).is_ok());
    };
    for (std::size_t position = 0; position < end; ++position) draw(position);
    // A sample that failed in its own choices, and not before, has drawn until then.
    if (slot.first_error && slot.first_error->status.code == slot.turns[end].status.code) draw(end);
    return draws;
}

std::optional<TorchDraws> DrawOrder::draws_before(const std::list<std::shared_ptr<BatchSlot>>& batches) const noexcept {
    if (!is_needed()) return std::nullopt;
    // Batches draw in order, and those without samples draw nothing: the first that has begun to is the one.
    for (const std::shared_ptr<BatchSlot>& slot : batches) {
        if (std::optional<TorchDraws> draws = draws_before(*slot)) return draws;
    }
    return draws_;
}

void DrawOrder::rewind(const std::list<std::shared_ptr<BatchSlot>>& batches) noexcept {
    if (const std::optional<TorchDraws> draws = draws_before(batches)) draws_ = draws;
}

std::optional<TorchDraws> DrawOrder::draws_before(const BatchSlot& slot) const noexcept {
    if (!is_needed() || slot.num_drawn == 0) return std::nullopt;
    TorchDraws draws = *draws_;
    draws.stream() = slot.draws_before;
    return draws;
}

}  // namespace fastload

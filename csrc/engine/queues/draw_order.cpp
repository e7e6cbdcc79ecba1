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
    if (!slot.has_begun_to_draw) slot.draws_before = draws_->stream();
    slot.has_begun_to_draw = true;
    for (; slot.num_drawn < slot.turns.size(); ++slot.num_drawn) {
        SampleTurn& turn = slot.turns[slot.num_drawn];
        if (turn.is_lost) continue;
        if (!turn.has_size) return false;
        draw_lost(slot);
        SampleReport& report = slot.reports[slot.num_drawn];
        turn.status = source_.resolve(&*draws_, report.source_size, &report);
        turn.has_drawn = true;
        if (turn.is_parked) resume(slot, slot.num_drawn, resumed);
    }
    draw_lost(slot);
    return true;
}

// Repeats the draws of lost samples that come before the batch's next sample.
void DrawOrder::draw_lost(BatchSlot& slot) noexcept {
    for (std::size_t& number = slot.num_lost_drawn; number < slot.lost_draws.size(); ++number) {
        const LostDraws& lost = slot.lost_draws[number];
        if (lost.position > slot.num_drawn) return;
        if (source_.resolve(&*draws_, lost.source_size, &slot.lost_report).is_ok()) slot.revived.push_back(number);
    }
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
    const SampleError* const error = slot.first_error();
    const std::size_t end = error != nullptr ? error->position : slot.turns.size();
    SampleReport again;
    again.reset(source_);
    const auto draw = [&](ImageSize source_size) {
        // The result is known; only the draws matter.
        static_cast<void>(source_.resolve(&draws, source_size, &again).is_ok());
    };
    auto lost = slot.lost_draws.begin();
    const auto draw_lost_before = [&](std::size_t position) {
        for (; lost != slot.lost_draws.end() && lost->position <= position; ++lost) draw(lost->source_size);
    };
    for (std::size_t position = 0; position < end; ++position) {
        draw_lost_before(position);
        draw(slot.reports[position].source_size);
    }
    draw_lost_before(end);
    if (error != nullptr && slot.has_drawn_and_failed(*error)) draw(slot.reports[end].source_size);
    return draws;
}

std::optional<TorchDraws> DrawOrder::draws_before(const std::list<std::shared_ptr<BatchSlot>>& batches) const noexcept {
    if (!is_needed()) return std::nullopt;
    // Batches draw in order: this is the first one that has begun to draw.
    for (const std::shared_ptr<BatchSlot>& slot : batches) {
        if (std::optional<TorchDraws> draws = draws_before(*slot)) return draws;
    }
    return draws_;
}

void DrawOrder::rewind(const std::list<std::shared_ptr<BatchSlot>>& batches) noexcept {
    if (const std::optional<TorchDraws> draws = draws_before(batches)) draws_ = draws;
}

std::optional<TorchDraws> DrawOrder::draws_before(const BatchSlot& slot) const noexcept {
    if (!is_needed() || !slot.has_begun_to_draw) return std::nullopt;
    TorchDraws draws = *draws_;
    draws.stream() = slot.draws_before;
    return draws;
}

}  // namespace fastload

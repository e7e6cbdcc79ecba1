#include "engine/queues/draw_planner.h"

#include <utility>

namespace fastload {
namespace {

constexpr Status kFails = {StatusCode::kOpenFailed, 0, 0, ""};

bool is_known(ImageSize size) noexcept { return size.width > 0 && size.height > 0; }

}  // namespace

DrawPlanner::DrawPlanner(SampleSource source)
    : source_(std::move(source)), batches_{std::make_shared<BatchSlot>()}, order_(source_) {}

void DrawPlanner::plan(Span<const std::int64_t> indices, Span<const ImageSize> sizes, Span<const LostDraws> lost_draws,
                       Span<const std::uint32_t> draw_numbers) {
    slot().sample_indices.assign(indices.begin(), indices.end());
    slot().draw_numbers.assign(draw_numbers.begin(), draw_numbers.end());
    slot().reports.resize(indices.size());
    for (SampleReport& report : slot().reports) report.reset(source_);
    slot().errors.clear();
    slot().errors.reserve(indices.size());
    slot().lost_draws.assign(lost_draws.begin(), lost_draws.end());
    slot().lost_report.reset(source_);
    slot().revived.clear();
    slot().revived.reserve(lost_draws.size());
    if (order_.is_needed()) {
        plan_in_order(sizes);
    } else {
        plan_each(sizes);
    }
}

void DrawPlanner::take_back() noexcept {
    if (const std::optional<TorchDraws> draws = order_.draws_before(slot())) order_.set_draws(*draws);
}

void DrawPlanner::plan_each(Span<const ImageSize> sizes) {
    for (std::size_t position = 0; position < sizes.size(); ++position) {
        Status status = kFails;
        if (is_known(sizes[position])) {
            CounterDraws draws = slot().counter_draws(source_, position);
            status = source_.resolve(&draws, sizes[position], &slot().reports[position]);
        }
        note(position, status);
    }
}

void DrawPlanner::plan_in_order(Span<const ImageSize> sizes) {
    slot().turns.assign(sizes.size(), SampleTurn{});
    slot().has_begun_to_draw = false;
    slot().num_drawn = slot().num_lost_drawn = 0;
    for (std::size_t position = 0; position < sizes.size(); ++position) {
        SampleTurn& turn = slot().turns[position];
        turn.has_size = is_known(sizes[position]);
        turn.is_lost = !turn.has_size;
        slot().reports[position].source_size = sizes[position];
    }
    std::list<PendingSample> none_is_parked;
    order_.advance(batches_, &none_is_parked);
    for (std::size_t position = 0; position < sizes.size(); ++position) {
        const SampleTurn& turn = slot().turns[position];
        note(position, turn.is_lost ? kFails : turn.status);
    }
    if (slot().first_error() != nullptr) order_.set_draws(order_.draws_after(slot()));
}

void DrawPlanner::note(std::size_t position, Status status) noexcept {
    if (status.is_ok()) return;
    slot().add_error({position, slot().sample_indices[position], status, nullptr});
}

}  // namespace fastload

#include "engine/iteration.h"

#include <utility>

namespace fastload {

Iteration::Iteration(std::shared_ptr<EngineCore> core, std::vector<SampleSource> sources, std::size_t first_lane)
    : num_submitted_(first_lane), num_taken_(first_lane) {
    lanes_.reserve(sources.size());
    for (SampleSource& source : sources) lanes_.push_back(DrawLane::open(core, std::move(source)));
}

void Iteration::submit(const NewBatch& batch) {
    lanes_[num_submitted_ % lanes_.size()]->submit(batch);
    ++num_submitted_;
}

std::shared_ptr<BatchSlot> Iteration::take_ready(std::shared_ptr<void>* memory) {
    std::shared_ptr<BatchSlot> slot = current()->take_ready(memory);
    if (slot != nullptr) ++num_taken_;
    return slot;
}

std::shared_ptr<DrawLane> Iteration::restart(const DrawLane& lane, const TorchDraws& draws) {
    for (std::shared_ptr<DrawLane>& candidate : lanes_) {
        if (candidate.get() != &lane || lane.is_cancelled()) continue;
        SampleSource source = lane.source();
        source.torch_draws = draws;
        std::shared_ptr<DrawLane> fresh = DrawLane::open(lane.shared_core(), std::move(source));
        candidate->cancel();
        candidate = fresh;
        return fresh;
    }
    return nullptr;
}

std::shared_ptr<DrawLane> Iteration::take_back(const DrawLane& lane, const BatchSlot& slot) {
    std::shared_ptr<DrawLane> its_lane;
    if (const std::optional<TorchDraws> draws = lane.draws_before(slot)) {
        its_lane = restart(lane, *draws);
    } else if (!lane.is_cancelled()) {
        its_lane = lanes_[(num_taken_ - 1) % lanes_.size()];
    }
    if (its_lane != nullptr) --num_taken_;
    return its_lane;
}

std::vector<TorchDraws> Iteration::draws_untaken() const {
    std::vector<TorchDraws> draws;
    for (const std::shared_ptr<DrawLane>& lane : lanes_) {
        if (const std::optional<TorchDraws> of_lane = lane->draws_untaken()) draws.push_back(*of_lane);
    }
    return draws;
}

void Iteration::cancel() noexcept {
    for (const std::shared_ptr<DrawLane>& lane : lanes_) lane->cancel();
}

std::size_t Iteration::batches_in_flight() const {
    std::size_t count = 0;
    for (const std::shared_ptr<DrawLane>& lane : lanes_) count += lane->batches_in_flight();
    return count;
}

std::vector<std::shared_ptr<void>> Iteration::memory_in_flight(std::size_t count) const {
    std::vector<std::vector<std::shared_ptr<void>>> by_lane;
    for (const std::shared_ptr<DrawLane>& lane : lanes_) by_lane.push_back(lane->memory_in_flight());
    std::vector<std::shared_ptr<void>> memory;
    for (std::size_t i = 0; i < count; ++i) {
        const std::vector<std::shared_ptr<void>>& of_lane = by_lane[(num_taken_ + i) % lanes_.size()];
        const std::size_t position = i / lanes_.size();
        if (position >= of_lane.size()) break;
        memory.push_back(of_lane[position]);
    }
    return memory;
}

}  // namespace fastload

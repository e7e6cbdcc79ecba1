// The random choices of batches that are not loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "base/image_view.h"
#include "base/span.h"
#include "engine/batch/batch_slot.h"
#include "engine/queues/draw_order.h"
#include "engine/sample/sample_task.h"

namespace fastload {

// Makes them as a lane does that gets the same batches in the same order, from the sizes of the images: Note [draw
// order]. Not thread-safe.
class DrawPlanner {
  public:
    // `source` needs no index. May throw std::bad_alloc.
    explicit DrawPlanner(SampleSource source);
    DrawPlanner(const DrawPlanner&) = delete;  // the order looks into the source
    DrawPlanner& operator=(const DrawPlanner&) = delete;

    // The next batch: samples and the sizes of their images, {0, 0} for one that fails before it draws; draw numbers of
    // the samples, or none. May throw std::bad_alloc, and the planner is of no use then. Without an order of draws
    // `lost_draws` are none.
    void plan(Span<const std::int64_t> indices, Span<const ImageSize> sizes, Span<const LostDraws> lost_draws = {},
              Span<const std::uint32_t> draw_numbers = {});

    // The batch that was planned last is the next one again.
    void take_back() noexcept;

    // Of the batch that was planned last: what a lane's reports say. A sample that fails has no steps.
    const std::vector<SampleReport>& reports() const noexcept { return slot().reports; }

    // Of that batch, too: its errors, as far as sizes tell, and what is revived.
    const BatchSlot& batch() const noexcept { return slot(); }

    // Torch's generator before the next batch; nothing where no draws are in order.
    std::optional<TorchDraws> draws() const noexcept {
        return order_.draws_before(std::list<std::shared_ptr<BatchSlot>>{});
    }

  private:
    BatchSlot& slot() const noexcept { return *batches_.front(); }
    void plan_each(Span<const ImageSize> sizes);
    void plan_in_order(Span<const ImageSize> sizes);
    void note(std::size_t position, Status status) noexcept;

    const SampleSource source_;
    const std::list<std::shared_ptr<BatchSlot>> batches_;  // the one at hand
    DrawOrder order_;
};

}  // namespace fastload

#include "engine/batch/batch_copy.h"

#include <utility>

namespace fastload {

BatchCopy::BatchCopy(std::shared_ptr<StagingSlot> slot, std::vector<StagedPart> parts, StreamId stream)
    : slot_(std::move(slot)), parts_(std::move(parts)), stream_(stream) {}

void BatchCopy::set_destinations(Span<void* const> to) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (has_destinations_) return;
    for (std::size_t i = 0; i < parts_.size(); ++i) parts_[i].to = to[i];
    has_destinations_ = true;
    queue_where_possible();
}

void BatchCopy::set_written() noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_written_ = true;
    queue_where_possible();
}

void BatchCopy::queue_where_possible() noexcept {
    if (!has_destinations_ || !is_written_ || is_queued_) return;
    is_queued_ = true;
    status_ = slot_->copy({parts_.data(), parts_.size()}, stream_);
}

bool BatchCopy::is_queued() const noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    return is_queued_;
}

DeviceStatus BatchCopy::status() const noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    return status_;
}

}  // namespace fastload

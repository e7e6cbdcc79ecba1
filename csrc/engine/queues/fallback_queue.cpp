#include "engine/queues/fallback_queue.h"

#include <chrono>
#include <utility>

namespace fastload {

void FallbackQueue::push(std::list<PendingSample> samples) noexcept {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (is_closed_) return;
        samples_.splice(samples_.end(), samples);
    }
    sample_arrived_.notify_one();
}

std::optional<PendingSample> FallbackQueue::wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    sample_arrived_.wait(lock, [this] { return is_closed_ || !samples_.empty(); });
    if (is_closed_) return std::nullopt;
    PendingSample sample = std::move(samples_.front());
    samples_.pop_front();
    sample.taken_at = std::chrono::steady_clock::now();
    return sample;
}

void FallbackQueue::remove(const DrawLane* lane) noexcept {
    std::list<PendingSample> removed;
    const std::lock_guard<std::mutex> lock(mutex_);
    removed = take_items_of(lane, &samples_);
}

void FallbackQueue::close() noexcept {
    std::list<PendingSample> removed;  // destroyed after the lock
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (is_closed_) return;
        is_closed_ = true;
        removed.swap(samples_);
    }
    sample_arrived_.notify_all();
}

std::size_t FallbackQueue::size() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return samples_.size();
}

}  // namespace fastload

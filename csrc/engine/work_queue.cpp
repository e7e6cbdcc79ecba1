#include "engine/work_queue.h"

#include <chrono>
#include <utility>

namespace fastload {

void WorkQueue::push(std::list<Entry> batches) noexcept {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (is_closed_) return;
        entries_.splice(entries_.end(), batches);
    }
    work_arrived_.notify_all();
}

std::optional<PendingSample> WorkQueue::take(std::uint64_t* waited_ns) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (entries_.empty() && !is_closed_) {
        const auto begin = std::chrono::steady_clock::now();
        work_arrived_.wait(lock, [this] { return is_closed_ || !entries_.empty(); });
        *waited_ns += static_cast<std::uint64_t>((std::chrono::steady_clock::now() - begin).count());
    }
    if (is_closed_) return std::nullopt;
    Entry& oldest = entries_.front();
    PendingSample sample{oldest.stream, oldest.slot, oldest.slot->next_position++, Status::ok(), {}};
    if (oldest.slot->next_position == oldest.slot->sample_indices.size()) entries_.pop_front();
    return sample;
}

void WorkQueue::remove(const Stream* stream) noexcept {
    std::list<Entry> removed;  // destroyed after the lock: their last reference may free a batch
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto entry = entries_.begin(); entry != entries_.end();) {
        const auto candidate = entry++;
        if (candidate->stream.get() == stream) removed.splice(removed.end(), entries_, candidate);
    }
}

void WorkQueue::close() noexcept {
    std::list<Entry> removed;  // destroyed after the lock
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        is_closed_ = true;
        removed.swap(entries_);
    }
    work_arrived_.notify_all();
}

bool WorkQueue::is_closed() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return is_closed_;
}

}  // namespace fastload

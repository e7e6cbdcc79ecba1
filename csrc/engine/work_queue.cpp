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

void WorkQueue::push_again(std::list<PendingSample> samples) noexcept {
    if (samples.empty()) return;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (is_closed_) return;
        again_.splice(again_.end(), samples);
    }
    work_arrived_.notify_all();
}

std::optional<PendingSample> WorkQueue::take(std::uint64_t* waited_ns) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (again_.empty() && entries_.empty() && !is_closed_) {
        const auto begin = std::chrono::steady_clock::now();
        work_arrived_.wait(lock, [this] { return is_closed_ || !again_.empty() || !entries_.empty(); });
        *waited_ns += static_cast<std::uint64_t>((std::chrono::steady_clock::now() - begin).count());
    }
    if (is_closed_) return std::nullopt;
    if (!again_.empty()) {
        PendingSample sample = std::move(again_.front());
        again_.pop_front();
        return sample;
    }
    Entry& oldest = entries_.front();
    PendingSample sample{oldest.stream, oldest.slot, oldest.slot->next_position++, {}, {}, {}, {}};
    if (oldest.slot->next_position == oldest.slot->sample_indices.size()) entries_.pop_front();
    return sample;
}

void WorkQueue::remove(const Stream* stream) noexcept {
    std::list<Entry> removed;  // destroyed after the lock: their last reference may free a batch
    std::list<PendingSample> removed_again;
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto sample = again_.begin(); sample != again_.end();) {
        const auto candidate = sample++;
        if (candidate->stream.get() == stream) removed_again.splice(removed_again.end(), again_, candidate);
    }
    for (auto entry = entries_.begin(); entry != entries_.end();) {
        const auto candidate = entry++;
        if (candidate->stream.get() == stream) removed.splice(removed.end(), entries_, candidate);
    }
}

void WorkQueue::close() noexcept {
    std::list<Entry> removed;  // destroyed after the lock
    std::list<PendingSample> removed_again;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        is_closed_ = true;
        removed.swap(entries_);
        removed_again.swap(again_);
    }
    work_arrived_.notify_all();
}

bool WorkQueue::is_closed() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return is_closed_;
}

}  // namespace fastload

#include "engine/queues/work_queue.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace fastload {
namespace {

// A read of 100 KB from the page cache takes about 20 us, but on a busy machine a thread may lose its processor in the
// middle of one. So a single read counts as 1 ms at most, and only if many of the last 16 or so are slow, reads are
// slow.
constexpr std::uint64_t kSlowReadNs = 400'000;
constexpr std::uint64_t kMostOfOneReadNs = 1'000'000;
constexpr std::uint64_t kReadsRemembered = 16;

}  // namespace

void WorkQueue::push(std::list<Entry> batches, End end) noexcept {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (is_closed_) return;
        entries_.splice(end == End::kBack ? entries_.end() : entries_.begin(), batches);
        if (should_read_ahead()) may_read_ahead_.notify_one();
    }
    work_arrived_.notify_all();
}

std::list<PendingSample> WorkQueue::list_of(PendingSample sample) {
    std::list<PendingSample> list;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!spare_nodes_.empty()) list.splice(list.end(), spare_nodes_, spare_nodes_.begin());
    }
    if (list.empty()) list.emplace_back();
    list.front() = std::move(sample);
    return list;
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

PendingSample WorkQueue::take_next() {
    Entry& oldest = entries_.front();
    PendingSample sample{oldest.lane, oldest.slot, oldest.slot->next_position++, {}, {}, {}, {}};
    if (oldest.slot->next_position == oldest.slot->sample_indices.size()) entries_.pop_front();
    return sample;
}

bool WorkQueue::has_work_within(std::chrono::milliseconds patience) {
    std::unique_lock<std::mutex> lock(mutex_);
    return work_arrived_.wait_for(lock, patience,
                                  [this] { return is_closed_ || !again_.empty() || !entries_.empty(); });
}

std::optional<PendingSample> WorkQueue::take(std::uint64_t* waited_ns) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (should_read_ahead()) may_read_ahead_.notify_one();
    if (again_.empty() && entries_.empty() && !is_closed_) {
        const auto begin = std::chrono::steady_clock::now();
        work_arrived_.wait(lock, [this] { return is_closed_ || !again_.empty() || !entries_.empty(); });
        *waited_ns += static_cast<std::uint64_t>((std::chrono::steady_clock::now() - begin).count());
    }
    if (is_closed_) return std::nullopt;
    if (!again_.empty()) {
        PendingSample sample = std::exchange(again_.front(), {});
        spare_nodes_.splice(spare_nodes_.end(), again_, again_.begin());
        return sample;
    }
    return take_next();
}

bool WorkQueue::should_read_ahead() const noexcept {
    return read_ns_ > kSlowReadNs && !entries_.empty() && again_.size() + num_being_read_ < read_ahead_ &&
           files_.has_room();
}

std::optional<PendingSample> WorkQueue::take_to_read() {
    std::unique_lock<std::mutex> lock(mutex_);
    may_read_ahead_.wait(lock, [this] { return is_closed_ || should_read_ahead(); });
    if (is_closed_) return std::nullopt;
    ++num_being_read_;
    PendingSample sample = take_next();
    if (should_read_ahead()) may_read_ahead_.notify_one();
    return sample;
}

void WorkQueue::push_read(std::list<PendingSample> sample) noexcept {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        --num_being_read_;
        if (!is_closed_) again_.splice(again_.end(), sample);
    }
    work_arrived_.notify_one();
}

bool WorkQueue::note_read(std::uint64_t read_ns, std::size_t max_samples) noexcept {
    if (read_ns == 0) return false;
    const std::lock_guard<std::mutex> lock(mutex_);
    read_ns_ -= read_ns_ / kReadsRemembered;
    read_ns_ += std::min(read_ns, kMostOfOneReadNs) / kReadsRemembered;
    const bool is_first = read_ahead_ == 0 && read_ns_ > kSlowReadNs;
    if (is_first) read_ahead_ = max_samples;
    if (should_read_ahead()) may_read_ahead_.notify_one();
    return is_first;
}

void WorkQueue::remove(const DrawLane* lane) noexcept {
    std::list<Entry> removed;
    std::list<PendingSample> removed_again;
    const std::lock_guard<std::mutex> lock(mutex_);
    removed_again = take_items_of(lane, &again_);
    removed = take_items_of(lane, &entries_);
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
    may_read_ahead_.notify_all();
}

bool WorkQueue::is_closed() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return is_closed_;
}

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

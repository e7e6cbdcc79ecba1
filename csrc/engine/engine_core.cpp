#include "engine/engine_core.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "engine/lane.h"

namespace fastload {

std::unique_ptr<SampleWorker> EngineCore::borrow_worker() {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!idle_workers_.empty()) {
            std::unique_ptr<SampleWorker> worker = std::move(idle_workers_.back());
            idle_workers_.pop_back();
            return worker;
        }
    }
    return make_worker_();
}

void EngineCore::return_worker(std::unique_ptr<SampleWorker> worker) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    try {
        idle_workers_.push_back(std::move(worker));
    } catch (const std::bad_alloc&) {
        return;  // no memory for the list: the worker is not kept
    }
}

void EngineCore::add_lane(const std::shared_ptr<Lane>& lane) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!fault_.is_ok()) lane->set_fault(fault_);
    lanes_.erase(std::remove_if(lanes_.begin(), lanes_.end(),
                                [](const std::weak_ptr<Lane>& candidate) { return candidate.expired(); }),
                 lanes_.end());
    lanes_.push_back(lane);
}

std::vector<std::shared_ptr<Lane>> EngineCore::lanes() {
    std::vector<std::shared_ptr<Lane>> alive;
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const std::weak_ptr<Lane>& candidate : lanes_) {
        if (std::shared_ptr<Lane> lane = candidate.lock()) alive.push_back(std::move(lane));
    }
    return alive;
}

void EngineCore::signal_end() noexcept {
    work_.close();
    fallback_.close();
    const std::lock_guard<std::mutex> lock(mutex_);  // no lane takes it while it holds a lock of its own
    for (const std::weak_ptr<Lane>& candidate : lanes_) {
        if (const std::shared_ptr<Lane> lane = candidate.lock()) lane->cancel();
    }
}

void EngineCore::set_fault(Status fault) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!fault_.is_ok()) return;
    fault_ = fault;
    for (const std::weak_ptr<Lane>& candidate : lanes_) {
        if (const std::shared_ptr<Lane> lane = candidate.lock()) lane->set_fault(fault);
    }
}

bool EngineCore::is_running() const {
    if (work_.is_closed()) return false;
    const std::lock_guard<std::mutex> lock(mutex_);
    return fault_.is_ok();
}

void EngineCore::thread_started() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++num_running_threads_;
}

void EngineCore::thread_ended() {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        --num_running_threads_;
    }
    thread_ended_.notify_all();
}

bool EngineCore::wait_for_threads_to_end(std::chrono::milliseconds timeout) {
    std::unique_lock<std::mutex> lock(mutex_);
    return thread_ended_.wait_for(lock, timeout, [this] { return num_running_threads_ == 0; });
}

}  // namespace fastload

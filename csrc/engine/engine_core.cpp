#include "engine/engine_core.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

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
    worker->release_large_scratch();
    const std::lock_guard<std::mutex> lock(mutex_);
    try {
        idle_workers_.push_back(std::move(worker));
    } catch (const std::bad_alloc&) {
        return;  // no memory for the list: the worker is dropped
    }
}

void EngineCore::add_client(const std::shared_ptr<EngineClient>& client) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!fault_.is_ok()) client->set_fault(fault_);
    clients_.erase(std::remove_if(clients_.begin(), clients_.end(),
                                  [](const std::weak_ptr<EngineClient>& candidate) { return candidate.expired(); }),
                   clients_.end());
    clients_.push_back(client);
}

std::vector<std::shared_ptr<EngineClient>> EngineCore::clients() {
    std::vector<std::shared_ptr<EngineClient>> alive;
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const std::weak_ptr<EngineClient>& candidate : clients_) {
        if (std::shared_ptr<EngineClient> client = candidate.lock()) alive.push_back(std::move(client));
    }
    return alive;
}

void EngineCore::signal_end() noexcept {
    work_.close();
    fallback_.close();
    const std::lock_guard<std::mutex> lock(mutex_);  // no client acquires it while it holds a lock of its own
    for (const std::weak_ptr<EngineClient>& candidate : clients_) {
        if (const std::shared_ptr<EngineClient> client = candidate.lock()) client->cancel();
    }
}

void EngineCore::set_fault(Status fault) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!fault_.is_ok()) return;
    fault_ = fault;
    for (const std::weak_ptr<EngineClient>& candidate : clients_) {
        if (const std::shared_ptr<EngineClient> client = candidate.lock()) client->set_fault(fault);
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

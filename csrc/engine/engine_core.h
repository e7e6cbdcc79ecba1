// State that the threads and lanes of an engine share. It lives until the last of them is gone, possibly after the
// engine.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/fork_guard.h"
#include "engine/queues/work_queue.h"
#include "engine/sample/sample_file.h"
#include "engine/sample/sample_task.h"
#include "engine/sample/sample_timings.h"

namespace fastload {

struct EngineCounters {
    std::uint64_t samples_native = 0;    // decoded by the native decoder
    std::uint64_t samples_fallback = 0;  // decoded by the reference decoder
    std::uint64_t samples_failed = 0;
    std::uint64_t batches_delivered = 0;
    SampleTimings stages;              // sums over all samples and threads
    std::uint64_t worker_wait_ns = 0;  // time that threads waited for work, summed over threads
    std::uint64_t scratch_bytes = 0;   // held by threads when they last reported
    std::map<std::string, std::uint64_t> fallback_reasons;
};

// Thread-safe sums. One lock per sample: samples take milliseconds.
class Stats {
  public:
    // Calls `change(EngineCounters&)` under the lock.
    template <typename Change>
    void update(Change&& change) {
        const std::lock_guard<std::mutex> lock(mutex_);
        change(counters_);
    }

    EngineCounters snapshot() const {
        const std::lock_guard<std::mutex> lock(mutex_);
        return counters_;
    }

  private:
    mutable std::mutex mutex_;
    EngineCounters counters_;
};

using SampleWorkerFactory = std::function<std::unique_ptr<SampleWorker>()>;

// A client that waits for an engine's threads. Thread-safe.
class EngineClient {
  public:
    virtual ~EngineClient() = default;

    // The engine ends: work in flight is dropped.
    virtual void cancel() noexcept = 0;
    // The engine lost a thread: every wait reports it.
    virtual void set_fault(Status status) noexcept = 0;

    virtual std::size_t batches_in_flight() const = 0;
    virtual std::size_t batches_ready() const = 0;
};

class EngineCore {
  public:
    EngineCore(std::size_t num_threads, SampleWorkerFactory make_worker)
        : num_threads_(num_threads), make_worker_(std::move(make_worker)), files_(num_threads), work_(files_) {}

    std::size_t num_threads() const noexcept { return num_threads_; }
    WorkQueue& work() noexcept { return work_; }
    FallbackQueue& fallback() noexcept { return fallback_; }
    SampleFiles& files() noexcept { return files_; }
    Stats& stats() noexcept { return stats_; }

    // See Note [after fork].
    bool is_forked() const noexcept { return generation_ != fork_generation(); }

    // Lends a worker to a thread that is not the engine's own: a thread of the reference decoder, or the caller's
    // without threads. Borrowed workers are reused. May throw std::bad_alloc.
    std::unique_ptr<SampleWorker> borrow_worker();
    void return_worker(std::unique_ptr<SampleWorker> worker) noexcept;
    std::unique_ptr<SampleWorker> make_worker() const { return make_worker_(); }

    // If the engine has already lost a thread, the client is notified at once.
    void add_client(const std::shared_ptr<EngineClient>& client);

    // The clients that still exist.
    std::vector<std::shared_ptr<EngineClient>> clients();

    // Cancels every client; threads leave after their current sample. May be called again.
    void signal_end() noexcept;

    // A thread ended by an error: notifies every client, present or future. The first error counts.
    void set_fault(Status fault) noexcept;

    // False if the engine was closed or has lost a thread.
    bool is_running() const;

    // Threads register here, so that close() can wait for them with a limit.
    void thread_started();
    void thread_ended();
    // True if no thread is left within `timeout`.
    bool wait_for_threads_to_end(std::chrono::milliseconds timeout);

  private:
    const std::size_t num_threads_;
    const SampleWorkerFactory make_worker_;
    const std::uint32_t generation_ = fork_generation();
    SampleFiles files_;
    WorkQueue work_;
    FallbackQueue fallback_;
    Stats stats_;

    mutable std::mutex mutex_;
    std::condition_variable thread_ended_;
    std::size_t num_running_threads_ = 0;
    std::vector<std::unique_ptr<SampleWorker>> idle_workers_;
    std::vector<std::weak_ptr<EngineClient>> clients_;
    Status fault_;
};

}  // namespace fastload

// The threads of a loader, which fill the lanes of its iterations.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

#include "engine/engine_core.h"
#include "engine/fork_guard.h"

namespace fastload {

// Owned by one loader and kept between epochs. Thread-safe. Its threads hold only the core: destroying the engine
// signals them and returns at once.
class Engine {
  public:
    // Starts `num_threads` threads named "fastload-w0", "fastload-w1", ...; with 0 the thread that waits for a batch
    // does the work. Throws std::runtime_error, with the number, if the system refuses a thread; threads that were
    // already started are ended first.
    Engine(std::size_t num_threads, SampleWorkerFactory make_worker);
    ~Engine();

    // Ends every lane and every wait, then waits for the threads, at most `timeout`. Returns true if all have ended. A
    // thread in a read that hangs stays, with its memory, until the read returns. Further calls do nothing.
    bool close(std::chrono::milliseconds timeout);

    EngineCore& core() const noexcept { return **core_; }
    const std::shared_ptr<EngineCore>& shared_core() const noexcept { return *core_; }

  private:
    LeakedAfterFork<std::shared_ptr<EngineCore>> core_;
};

}  // namespace fastload

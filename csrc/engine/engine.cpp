#include "engine/engine.h"

#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "engine/worker_pool.h"

namespace fastload {

Engine::Engine(std::size_t num_threads, SampleWorkerFactory make_worker)
    : core_(std::make_shared<EngineCore>(num_threads, std::move(make_worker))) {
    std::size_t number = 0;
    try {
        for (; number < num_threads; ++number) start_worker_thread(*core_, number);
    } catch (const std::system_error& error) {
        close(std::chrono::milliseconds(200));
        throw std::runtime_error("cannot start loader thread " + std::to_string(number + 1) + " of " +
                                 std::to_string(num_threads) + ": " + error.code().message() +
                                 ". Lower num_workers or raise the limit on processes (ulimit -u).");
    } catch (const std::bad_alloc&) {
        close(std::chrono::milliseconds(200));
        throw;
    }
}

Engine::~Engine() {
    if (!core().is_forked()) core().signal_end();
}

std::shared_ptr<Lane> Engine::open_lane(SampleSource source) { return Lane::open(*core_, std::move(source)); }

std::unique_ptr<Iteration> Engine::open_iteration(std::vector<SampleSource> sources) {
    return std::make_unique<Iteration>(*core_, std::move(sources));
}

bool Engine::close(std::chrono::milliseconds timeout) {
    core().signal_end();
    return core().wait_for_threads_to_end(timeout);
}

}  // namespace fastload

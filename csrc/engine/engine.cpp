#include "engine/engine.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <list>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/aligned_buffer.h"
#include "engine/draw_lane.h"

namespace fastload {
namespace {

// New threads inherit the signal mask of the thread that makes them. Signals of a thread's own faults are not blocked:
// blocked, they would end the process without running the handlers that report them (faulthandler, sanitizers).
class SignalsBlocked {
  public:
    SignalsBlocked() {
        sigset_t blocked;
        sigfillset(&blocked);
        for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) sigdelset(&blocked, fault);
        pthread_sigmask(SIG_SETMASK, &blocked, &previous_);
    }
    ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &previous_, nullptr); }
    SignalsBlocked(const SignalsBlocked&) = delete;  // a scope, not a value
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

  private:
    sigset_t previous_;
};

// See Note [reading ahead]. Without memory a reader ends, and threads read for themselves.
void read_samples(const std::shared_ptr<EngineCore>& core) noexcept try {
    const std::unique_ptr<SampleWorker> worker = core->make_worker();
    for (;;) {
        // The list node is made before the sample is taken: after that nothing may fail.
        std::list<PendingSample> sample = core->work().list_of({});
        std::optional<PendingSample> taken = core->work().take_to_read();
        if (!taken) return;
        sample.front() = std::move(*taken);
        const std::shared_ptr<DrawLane> lane = sample.front().lane;
        std::uint64_t read_ns = 0;
        if (lane->is_cancelled()) {
            sample.clear();
        } else {
            read_ns = lane->read_ahead(sample.front(), *worker);
        }
        core->work().push_read(std::move(sample));
        core->work().note_read(read_ns, 0);
    }
} catch (const std::bad_alloc&) {
}

void start_readers(const std::shared_ptr<EngineCore>& core) noexcept;

// Several for each decoding thread, so that storage sees many requests at a time; they sleep while they are not needed.
std::size_t count_readers(const EngineCore& core) noexcept {
    return std::clamp<std::size_t>(6 * core.num_threads(), 8, 64);
}

// Reports the scratch memory of one thread to a counter for all threads.
class CountedScratch {
  public:
    CountedScratch(EngineCore& core, SampleWorker& worker) noexcept : core_(core), worker_(worker) {}

    void count(std::uint64_t waited_ns) {
        const std::size_t scratch = worker_.scratch_bytes();
        core_.stats().update([&](EngineCounters& counters) {
            counters.worker_wait_ns += waited_ns;
            counters.scratch_bytes += scratch - counted_;
        });
        counted_ = scratch;
    }

    // A thread that has nothing to do for a while releases the scratch memory of large images.
    void release_if_idle() {
        constexpr std::chrono::milliseconds kPatience(100);
        if (counted_ <= AlignedBuffer::kMaxKeptBytes || core_.work().has_work_within(kPatience)) return;
        worker_.release_large_scratch();
        count(static_cast<std::uint64_t>(std::chrono::nanoseconds(kPatience).count()));
    }

  private:
    EngineCore& core_;
    SampleWorker& worker_;
    std::size_t counted_ = 0;
};

void fill_samples(const std::shared_ptr<EngineCore>& core) {
    const std::unique_ptr<SampleWorker> worker = core->make_worker();
    CountedScratch scratch(*core, *worker);
    for (;;) {
        scratch.release_if_idle();
        std::uint64_t waited_ns = 0;
        std::optional<PendingSample> sample = core->work().take(&waited_ns);
        if (!sample) return;
        // This copy keeps the lane alive while the sample itself is moved along.
        const std::shared_ptr<DrawLane> lane = sample->lane;
        const std::uint64_t read_ns = lane->run_sample(std::move(*sample), *worker);
        if (core->work().note_read(read_ns, 2 * count_readers(*core))) start_readers(core);
        scratch.count(waited_ns);
    }
}

using ThreadBody = void (*)(const std::shared_ptr<EngineCore>& core);

void thread_main(const std::shared_ptr<EngineCore>& core, ThreadBody body) noexcept {
    Status fault;
    try {
        body(core);
    } catch (const std::bad_alloc&) {
        fault = {StatusCode::kOutOfMemory, 0, 0, "a loader thread ran out of memory; iterate again to start anew"};
    } catch (...) {
        fault = {StatusCode::kCancelled, 0, 0, "it ended by an unexpected exception"};
    }
    if (!fault.is_ok()) core->set_fault(fault);
    core->thread_ended();
}

// Starts a thread. It blocks signals, which belong to the interpreter, has the name "fastload-<kind><number>" and never
// ends by an exception: exceptions become a fault of every lane. Throws std::system_error if the system refuses a
// thread, std::bad_alloc if there is no memory.
void start_thread(const std::shared_ptr<EngineCore>& core, ThreadBody body, const char* kind, std::size_t number) {
    const SignalsBlocked scope;
    core->thread_started();
    try {
        std::thread thread([core, body] { thread_main(core, body); });
        char name[16];  // the system's limit, including the terminator
        std::snprintf(name, sizeof(name), "fastload-%s%zu", kind, number);
        pthread_setname_np(thread.native_handle(), name);
        // Detached, because a thread stuck in a read cannot be joined in bounded time; the core counts them instead.
        thread.detach();
    } catch (...) {
        core->thread_ended();
        throw;
    }
}

void start_readers(const std::shared_ptr<EngineCore>& core) noexcept try {
    for (std::size_t number = 0; number < count_readers(*core); ++number) start_thread(core, read_samples, "r", number);
} catch (...) {
    return;  // the system refuses more threads; the existing ones suffice
}

}  // namespace

Engine::Engine(std::size_t num_threads, SampleWorkerFactory make_worker)
    : core_(std::make_shared<EngineCore>(num_threads, std::move(make_worker))) {
    std::size_t number = 0;
    try {
        for (; number < num_threads; ++number) start_thread(*core_, fill_samples, "w", number);
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

bool Engine::close(std::chrono::milliseconds timeout) {
    core().signal_end();
    return core().wait_for_threads_to_end(timeout);
}

}  // namespace fastload

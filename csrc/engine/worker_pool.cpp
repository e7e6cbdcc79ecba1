#include "engine/worker_pool.h"

#include <pthread.h>
#include <signal.h>

#include <cstdio>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "engine/stream.h"

namespace fastload {
namespace {

// New threads inherit the mask of the thread that makes them. Not blocked are the signals of a thread's own faults:
// blocked, they would end the process past every handler that says where (faulthandler, sanitizers).
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

void fill_samples(EngineCore& core) {
    const std::unique_ptr<SampleWorker> worker = core.make_worker();
    std::size_t counted_scratch = 0;
    for (;;) {
        std::uint64_t waited_ns = 0;
        std::optional<PendingSample> sample = core.work().take(&waited_ns);
        if (!sample) return;
        // The stream is kept alive by this copy while the sample itself is moved along.
        const std::shared_ptr<Stream> stream = sample->stream;
        stream->run_sample(std::move(*sample), *worker);
        const std::size_t scratch = worker->scratch_bytes();
        core.stats().update([&](EngineCounters& counters) {
            counters.worker_wait_ns += waited_ns;
            counters.scratch_bytes += scratch - counted_scratch;
        });
        counted_scratch = scratch;
    }
}

void thread_main(const std::shared_ptr<EngineCore>& core) noexcept {
    Status fault;
    try {
        fill_samples(*core);
    } catch (const std::bad_alloc&) {
        fault = {StatusCode::kOutOfMemory, 0, 0, "a loader thread ran out of memory"};
    } catch (...) {
        fault = {StatusCode::kOutOfMemory, 0, 0, "a loader thread ended by an unexpected exception"};
    }
    if (!fault.is_ok()) core->set_fault(fault);
    core->thread_ended();
}

}  // namespace

void start_worker_thread(std::shared_ptr<EngineCore> core, std::size_t number) {
    const SignalsBlocked scope;
    core->thread_started();
    try {
        std::thread thread([core] { thread_main(core); });
        char name[16];  // the system's limit, terminator included
        std::snprintf(name, sizeof(name), "fastload-w%zu", number);
        pthread_setname_np(thread.native_handle(), name);
        // Detached, because a thread stuck in a read cannot be joined in bounded time; the core counts them instead.
        thread.detach();
    } catch (...) {
        core->thread_ended();
        throw;
    }
}

}  // namespace fastload

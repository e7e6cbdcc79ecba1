// A GPU of the fake CUDA runtime: streams are queues, and nothing in them happens before someone steps it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace fake_cuda {

// Names a stream or an event; unique among the streams and events of all GPUs. 0 is none.
using Handle = std::uintptr_t;

// Note [stepped streams]
// The GPU breaks code that forgets to wait. A copy reads its source when it is stepped, which may be never; it poisons
// its destination as early as a device could begin to write there: once all that comes before it on its stream is done,
// which is at once where that is nothing. An event is a ticket, fresh for every record; a stream that waits for it goes
// on when the ticket is done, without a step of its own. Streams wait for each other in no other way: the default
// stream is one like the others, as it is to the streams of torch.
//
// Device memory is memory of the process. A GPU is not for a forked child of the process that added it: its lock may be
// held by a thread that has not come along.
class FakeGpu {
  public:
    using Kernel = std::function<void()>;

    // Fills a destination until it is copied to.
    static constexpr unsigned char kPoison = 0xCC;

    // Adds a GPU to the process, where it stays until the end; throws std::length_error if there are too many.
    static FakeGpu& add();
    static int count() noexcept;
    // Null where there is none of that number.
    static FakeGpu* at(int number) noexcept;
    // The GPU of a stream or event; throws std::invalid_argument for a handle that never was one.
    static FakeGpu& of(Handle handle);

    explicit FakeGpu(int number);
    FakeGpu(const FakeGpu&) = delete;  // shared by reference
    FakeGpu& operator=(const FakeGpu&) = delete;

    int number() const noexcept { return number_; }
    Handle default_stream() const noexcept { return first_handle_; }

    // ---- what the functions of the runtime do (cudart.cpp), which return numbers of cudaError_t

    // Comes first in a function of the runtime: counts the call, and returns the error to be returned instead. Calls
    // that work at the GPU return a sticky error.
    int begin_call(const std::string& function, bool is_work) noexcept;
    int create_stream(Handle* stream) noexcept;
    int create_event(Handle* event) noexcept;
    int destroy_event(Handle event) noexcept;
    int copy(void* to, const void* from, std::size_t size_bytes, Handle stream) noexcept;
    int record_event(Handle event, Handle stream) noexcept;
    int query_event(Handle event, bool* is_done) noexcept;
    // The stream goes no further until what was recorded last, before this call, is done.
    int wait_event(Handle stream, Handle event) noexcept;

    // Whether a thread has chosen this GPU, as cudaSetDevice does.
    bool has_context() const noexcept;
    void make_context() noexcept;

    // ---- what a test does with it. Throw std::invalid_argument for a stream or event that does not exist.

    void enqueue(Handle stream, Kernel kernel);

    // Stepping. Operations run in the calling thread, without a lock of the GPU, one at a time on each stream; what a
    // kernel throws is thrown here, and the operation is over.

    // Runs the next operation of a stream; false where there is none, it has to wait, or another thread runs it.
    bool step(Handle stream);
    // The same for one of the streams that can be stepped, chosen by `random`; false where there is none.
    bool step_any(std::uint64_t random);
    // Waits until a stream can be stepped: for threads that play the device. False after `timeout_seconds`.
    bool wait_for_work(double timeout_seconds);
    // Runs what has to run for all that the stream holds, and nothing else. Not for a kernel on that stream.
    void synchronize(Handle stream);
    // Runs everything, the streams in turns.
    void synchronize_all();

    // Operations not over yet, waits that hold a stream up included.
    std::size_t num_pending(Handle stream) const;
    // Events that exist.
    std::size_t num_events() const;

    // From now on the n-th call (from 1) of this function of the runtime at this GPU does nothing and returns `error`,
    // and with `is_sticky` so does every later one that works at it. Throw std::invalid_argument for a function that is
    // none which can fail, and for an n or error of 0.
    void fail_call(const std::string& function, std::uint64_t n, int error, bool is_sticky = false);
    // Calls of a function of the runtime at this GPU so far; those that failed count.
    std::uint64_t call_count(const std::string& function) const;

  private:
    using Lock = std::unique_lock<std::mutex>;

    struct Ticket {
        Handle stream;
        bool is_done = false;
    };
    struct Operation {
        std::shared_ptr<const Ticket> waits_for;  // set in waits only
        std::function<void()> poison;             // set until it was called
        std::function<void()> run;
        std::shared_ptr<Ticket> completes;
    };
    struct Stream {
        std::deque<Operation> operations;
        std::thread::id runner;  // of the first operation; none while it is not run

        bool is_running() const { return runner != std::thread::id(); }
        bool can_step() const {
            return !operations.empty() && !is_running() && operations.front().waits_for == nullptr;
        }
    };
    struct Injection {
        std::string function;
        std::uint64_t calls_left;
        int error;
        bool is_sticky;
    };
    class Running;

    Stream& stream_at(Handle stream);
    const Stream& stream_at(Handle stream) const;
    const std::shared_ptr<Ticket>& ticket_of(Handle event) const;
    void append(Handle stream, Operation operation);
    // Drops the waits that are over and poisons what may be written from now on. After every change.
    void settle();
    std::vector<Stream*> streams_to_step();

    void run_first(Stream& stream, Lock& lock);
    // The stream that has to go on before `stream` can: itself where it does not wait.
    Stream& stream_in_the_way(Stream& stream);

    const int number_;
    const Handle first_handle_;

    mutable std::mutex mutex_;  // of all below
    std::condition_variable changed_;
    std::map<Handle, Stream> streams_;
    std::map<Handle, std::shared_ptr<Ticket>> events_;  // null while never recorded
    Handle next_handle_;
    std::vector<Injection> injections_;
    std::map<std::string, std::uint64_t> call_counts_;
    int sticky_error_ = 0;
    bool has_context_ = false;
};

}  // namespace fake_cuda

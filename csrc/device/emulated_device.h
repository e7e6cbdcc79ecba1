// A device for tests: streams are queues, and nothing in them happens before someone steps it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "device/backend.h"

namespace fastload {

// Note [emulated order]
// It breaks code that forgets to wait. A copy reads its source when it is stepped, which may be never; it poisons its
// destination as early as a device could begin to write there: once all that comes before it on its stream is done,
// which is at once where that is nothing. An event is a ticket, fresh for every record; a stream that waits for it goes
// on when the ticket is done, without a step of its own. Streams wait for each other in no other way: stream 0 is one
// like the others, as it is to the streams of torch.
//
// Device memory is memory of the process. Not for a forked child of the process that made it: its lock may be held by a
// thread that has not come along.
class EmulatedDevice final : public DeviceBackend {
  public:
    using Kernel = std::function<void()>;

    // What fills a destination until it is copied to.
    static constexpr unsigned char kPoison = 0xCC;

    EmulatedDevice();
    ~EmulatedDevice() override;

    // The functions of a device. A call outside of a DeviceScope of its thread, or of a stream or event that does not
    // exist, is an error; destroy_event does nothing then, which num_events() shows.
    DeviceStatus enter_thread(ThreadState* before) noexcept override;
    void leave_thread(const ThreadState& before) noexcept override;
    DeviceStatus create_event(EventId* event) noexcept override;
    void destroy_event(EventId event) noexcept override;
    DeviceStatus copy_to_device(void* to, const void* from, std::size_t size_bytes, StreamId stream) noexcept override;
    DeviceStatus record_event(EventId event, StreamId stream) noexcept override;
    DeviceStatus query_event(EventId event, bool* is_done) noexcept override;

    // What torch and the user's code do on a device. Need no scope; throw std::invalid_argument for a stream or event
    // that does not exist, here and below.
    StreamId create_stream();
    void enqueue(StreamId stream, Kernel kernel);
    // The stream goes no further until what was recorded last, before this call, is done.
    void wait_event(StreamId stream, EventId event);
    // Work that fails: once it is stepped, every call returns `error`.
    void enqueue_fault(StreamId stream, int error);

    // Stepping. Operations run in the calling thread, without a lock of the device, one at a time on each stream; what
    // a kernel throws is thrown here, and the operation is over.

    // Runs the next operation of a stream; false where there is none, it has to wait, or another thread runs it.
    bool step(StreamId stream);
    // The same for one of the streams that can be stepped, chosen by `random`; false where there is none.
    bool step_any(std::uint64_t random);
    // Waits until a stream can be stepped: for threads that play the device. False after `timeout_seconds`.
    bool wait_for_work(double timeout_seconds);
    // Run what has to run for the event, or for all that the stream holds, and nothing else. Throw std::logic_error
    // where that waits for the operation the calling thread is in.
    void run_until(EventId event);
    void synchronize(StreamId stream);
    // Runs everything, the streams in an order drawn from `seed`.
    void synchronize_all(std::uint64_t seed = 0);

    // Operations not over yet, waits that hold a stream up included.
    std::size_t num_pending(StreamId stream) const;
    // Events that exist.
    std::size_t num_events() const;
    // Threads in a DeviceScope.
    std::size_t num_threads_inside() const;

    // From now on the n-th call (from 1) of the function of DeviceBackend does nothing and returns `error`, and with
    // `is_sticky` so does every later call of any function. Throws std::invalid_argument for a name that is none, or
    // of a function that cannot fail.
    void fail_call(const std::string& function, std::uint64_t n, int error, bool is_sticky);
    // Calls of DeviceBackend's functions so far, by name; those that failed count.
    std::map<std::string, std::uint64_t> call_counts() const;

  private:
    using Lock = std::unique_lock<std::mutex>;

    enum class Call {
        kEnterThread,
        kLeaveThread,
        kCreateEvent,
        kDestroyEvent,
        kCopyToDevice,
        kRecordEvent,
        kQueryEvent
    };
    static constexpr std::size_t kNumCalls = 7;
    struct CallName {
        const char* function;  // of DeviceBackend
        const char* runtime;   // of the CUDA runtime, for DeviceStatus::call
    };
    static const CallName kCallNames[kNumCalls];

    struct Ticket {
        StreamId stream;
        bool is_done = false;
    };
    struct Operation {
        std::shared_ptr<const Ticket> waits_for;  // set in waits only
        std::function<void()> poison;             // set until it was called
        std::function<void()> run;
        std::shared_ptr<Ticket> completes;
        int error = 0;  // what the device has when it is over
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
        Call call;
        std::uint64_t calls_left;
        int error;
        bool is_sticky;
    };
    class Running;

    // The beginning of every function of a device: counts the call and returns what is to be returned instead.
    DeviceStatus begin_call(Call call);
    DeviceStatus take_injected(Call call);
    static DeviceStatus failure(Call call, int error);

    Stream& stream_at(StreamId stream);
    const Stream& stream_at(StreamId stream) const;
    const std::shared_ptr<Ticket>& ticket_of(EventId event) const;
    void append(StreamId stream, Operation operation);
    // Drops the waits that are over and poisons what may be written from now on. After every change.
    void settle();
    std::vector<Stream*> streams_to_step();

    void run_first(Stream& stream, Lock& lock);
    void run_until_done(const Ticket& ticket, Lock& lock);
    // The stream that has to go on before `stream` can: itself where it does not wait.
    Stream& stream_in_the_way(Stream& stream);
    void wait_for_runner(const Stream& stream, Lock& lock);
    bool waits_for_this_thread(const Stream& stream) const;

    mutable std::mutex mutex_;  // of all below
    std::condition_variable changed_;
    std::map<StreamId, Stream> streams_;
    std::map<EventId, std::shared_ptr<Ticket>> events_;  // null while never recorded
    EventId next_event_ = 1;
    std::map<std::thread::id, std::size_t> scopes_;  // how deep each thread is in
    std::map<std::thread::id, const Stream*> waiting_;
    std::vector<Injection> injections_;
    std::uint64_t call_counts_[kNumCalls] = {};
    int sticky_error_ = 0;
};

}  // namespace fastload

#include "device/emulated_device.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>

namespace fastload {
namespace {

constexpr int kOutOfMemory = 2;
constexpr int kOutsideOfScope = 201;
constexpr int kInvalidHandle = 400;

struct ErrorName {
    int error;
    const char* name;
    const char* text;
};

// As the CUDA runtime names them.
constexpr ErrorName kErrorNames[] = {
    {1, "cudaErrorInvalidValue", "invalid argument"},
    {kOutOfMemory, "cudaErrorMemoryAllocation", "out of memory"},
    {4, "cudaErrorCudartUnloading", "driver shutting down"},
    {kOutsideOfScope, "cudaErrorDeviceUninitialized", "the thread is in no scope of the emulated device"},
    {kInvalidHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {700, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {719, "cudaErrorLaunchFailure", "unspecified launch failure"},
};

// splitmix64 (Steele, Lea, Flood 2014).
std::uint64_t next_random(std::uint64_t* state) {
    std::uint64_t z = (*state += 0x9E3779B97F4A7C15U);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
}

}  // namespace

const EmulatedDevice::CallName EmulatedDevice::kCallNames[kNumCalls] = {
    {"enter_thread", "cudaSetDevice"},     {"leave_thread", "cudaSetDevice"},     {"create_event", "cudaEventCreate"},
    {"destroy_event", "cudaEventDestroy"}, {"copy_to_device", "cudaMemcpyAsync"}, {"record_event", "cudaEventRecord"},
    {"query_event", "cudaEventQuery"},
};

// While it lives, the calling thread runs the first operation of a stream, without the lock. Ends the operation also
// where it throws or its thread is unwound.
class EmulatedDevice::Running {
  public:
    Running(EmulatedDevice& device, Stream& stream, Lock& lock) : device_(device), stream_(stream), lock_(lock) {
        stream_.runner = std::this_thread::get_id();
        lock_.unlock();
    }
    ~Running() {
        lock_.lock();
        const Operation& operation = stream_.operations.front();
        if (operation.completes != nullptr) operation.completes->is_done = true;
        if (operation.error != 0) device_.sticky_error_ = operation.error;
        stream_.operations.pop_front();
        stream_.runner = std::thread::id();
        device_.settle();
    }
    Running(const Running&) = delete;  // a scope, not a value
    Running& operator=(const Running&) = delete;

  private:
    EmulatedDevice& device_;
    Stream& stream_;
    Lock& lock_;
};

EmulatedDevice::EmulatedDevice() { streams_[0]; }
EmulatedDevice::~EmulatedDevice() = default;

DeviceStatus EmulatedDevice::failure(Call call, int error) {
    const char* const function = kCallNames[static_cast<std::size_t>(call)].runtime;
    for (const ErrorName& known : kErrorNames) {
        if (known.error == error) return {error, known.name, known.text, function};
    }
    return {error, "cudaErrorUnknown", "unknown error", function};
}

DeviceStatus EmulatedDevice::begin_call(Call call) {
    ++call_counts_[static_cast<std::size_t>(call)];
    const DeviceStatus injected = take_injected(call);
    if (sticky_error_ != 0) return failure(call, sticky_error_);
    if (!injected.is_ok()) return injected;
    const bool is_inside = call == Call::kEnterThread || scopes_.count(std::this_thread::get_id()) != 0;
    return is_inside ? DeviceStatus{} : failure(call, kOutsideOfScope);
}

DeviceStatus EmulatedDevice::take_injected(Call call) {
    DeviceStatus status;
    for (Injection& injection : injections_) {
        if (injection.call != call || injection.calls_left == 0 || --injection.calls_left != 0) continue;
        if (injection.is_sticky) sticky_error_ = injection.error;
        status = failure(call, injection.error);
    }
    return status;
}

DeviceStatus EmulatedDevice::enter_thread(ThreadState* before) noexcept {
    const Lock lock(mutex_);
    if (DeviceStatus status = begin_call(Call::kEnterThread); !status.is_ok()) return status;
    try {
        ++scopes_[std::this_thread::get_id()];
    } catch (const std::bad_alloc&) {
        return failure(Call::kEnterThread, kOutOfMemory);
    }
    *before = ThreadState{};
    return {};
}

void EmulatedDevice::leave_thread(const ThreadState&) noexcept {
    const Lock lock(mutex_);
    ++call_counts_[static_cast<std::size_t>(Call::kLeaveThread)];
    const auto scope = scopes_.find(std::this_thread::get_id());
    if (scope != scopes_.end() && --scope->second == 0) scopes_.erase(scope);
}

DeviceStatus EmulatedDevice::create_event(EventId* event) noexcept {
    const Lock lock(mutex_);
    if (DeviceStatus status = begin_call(Call::kCreateEvent); !status.is_ok()) return status;
    try {
        events_.emplace(next_event_, nullptr);
    } catch (const std::bad_alloc&) {
        return failure(Call::kCreateEvent, kOutOfMemory);
    }
    *event = next_event_++;
    return {};
}

void EmulatedDevice::destroy_event(EventId event) noexcept {
    const Lock lock(mutex_);
    ++call_counts_[static_cast<std::size_t>(Call::kDestroyEvent)];
    if (scopes_.count(std::this_thread::get_id()) != 0) events_.erase(event);
}

DeviceStatus EmulatedDevice::copy_to_device(void* to, const void* from, std::size_t size_bytes,
                                            StreamId stream) noexcept {
    const Lock lock(mutex_);
    if (DeviceStatus status = begin_call(Call::kCopyToDevice); !status.is_ok()) return status;
    if (streams_.count(stream) == 0) return failure(Call::kCopyToDevice, kInvalidHandle);
    try {
        Operation copy;
        copy.poison = [to, size_bytes] { std::memset(to, kPoison, size_bytes); };
        copy.run = [to, from, size_bytes] { std::memcpy(to, from, size_bytes); };
        append(stream, std::move(copy));
    } catch (const std::bad_alloc&) {
        return failure(Call::kCopyToDevice, kOutOfMemory);
    }
    return {};
}

DeviceStatus EmulatedDevice::record_event(EventId event, StreamId stream) noexcept {
    const Lock lock(mutex_);
    if (DeviceStatus status = begin_call(Call::kRecordEvent); !status.is_ok()) return status;
    const auto place = events_.find(event);
    if (place == events_.end() || streams_.count(stream) == 0) return failure(Call::kRecordEvent, kInvalidHandle);
    try {
        Operation record;
        record.completes = std::make_shared<Ticket>(Ticket{stream});
        std::shared_ptr<Ticket> ticket = record.completes;
        append(stream, std::move(record));
        place->second = std::move(ticket);
    } catch (const std::bad_alloc&) {
        return failure(Call::kRecordEvent, kOutOfMemory);
    }
    return {};
}

DeviceStatus EmulatedDevice::query_event(EventId event, bool* is_done) noexcept {
    const Lock lock(mutex_);
    if (DeviceStatus status = begin_call(Call::kQueryEvent); !status.is_ok()) return status;
    const auto place = events_.find(event);
    if (place == events_.end()) return failure(Call::kQueryEvent, kInvalidHandle);
    *is_done = place->second == nullptr || place->second->is_done;
    return {};
}

StreamId EmulatedDevice::create_stream() {
    const Lock lock(mutex_);
    const StreamId stream = streams_.rbegin()->first + 1;
    streams_[stream];
    return stream;
}

void EmulatedDevice::enqueue(StreamId stream, Kernel kernel) {
    const Lock lock(mutex_);
    Operation operation;
    operation.run = std::move(kernel);
    append(stream, std::move(operation));
}

void EmulatedDevice::wait_event(StreamId stream, EventId event) {
    const Lock lock(mutex_);
    Operation wait;
    wait.waits_for = ticket_of(event);
    if (wait.waits_for != nullptr) append(stream, std::move(wait));
}

void EmulatedDevice::enqueue_fault(StreamId stream, int error) {
    const Lock lock(mutex_);
    Operation operation;
    operation.error = error;
    append(stream, std::move(operation));
}

bool EmulatedDevice::step(StreamId id) {
    Lock lock(mutex_);
    Stream& stream = stream_at(id);
    if (!stream.can_step()) return false;
    run_first(stream, lock);
    return true;
}

bool EmulatedDevice::step_any(std::uint64_t random) {
    Lock lock(mutex_);
    const std::vector<Stream*> streams = streams_to_step();
    if (streams.empty()) return false;
    run_first(*streams[random % streams.size()], lock);
    return true;
}

bool EmulatedDevice::wait_for_work(double timeout_seconds) {
    Lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::duration<double>(timeout_seconds),
                             [this] { return !streams_to_step().empty(); });
}

void EmulatedDevice::run_until(EventId event) {
    Lock lock(mutex_);
    const std::shared_ptr<const Ticket> ticket = ticket_of(event);
    if (ticket != nullptr) run_until_done(*ticket, lock);
}

void EmulatedDevice::synchronize(StreamId stream) {
    Lock lock(mutex_);
    const auto ticket = std::make_shared<Ticket>(Ticket{stream});
    Operation end;
    end.completes = ticket;
    append(stream, std::move(end));
    run_until_done(*ticket, lock);
}

void EmulatedDevice::synchronize_all(std::uint64_t seed) {
    Lock lock(mutex_);
    for (;;) {
        const std::vector<Stream*> streams = streams_to_step();
        if (!streams.empty()) {
            run_first(*streams[next_random(&seed) % streams.size()], lock);
            continue;
        }
        const auto is_busy = [](const auto& entry) { return !entry.second.operations.empty(); };
        const auto busy = std::find_if(streams_.begin(), streams_.end(), is_busy);
        if (busy == streams_.end()) return;
        wait_for_runner(stream_in_the_way(busy->second), lock);
    }
}

std::size_t EmulatedDevice::num_pending(StreamId stream) const {
    const Lock lock(mutex_);
    return stream_at(stream).operations.size();
}

std::size_t EmulatedDevice::num_events() const {
    const Lock lock(mutex_);
    return events_.size();
}

std::size_t EmulatedDevice::num_threads_inside() const {
    const Lock lock(mutex_);
    return scopes_.size();
}

void EmulatedDevice::fail_call(const std::string& function, std::uint64_t n, int error, bool is_sticky) {
    for (const Call call :
         {Call::kEnterThread, Call::kCreateEvent, Call::kCopyToDevice, Call::kRecordEvent, Call::kQueryEvent}) {
        if (function != kCallNames[static_cast<std::size_t>(call)].function) continue;
        if (n == 0 || error == 0) throw std::invalid_argument("n and error must be positive");
        const Lock lock(mutex_);
        injections_.push_back({call, n, error, is_sticky});
        return;
    }
    throw std::invalid_argument("'" + function +
                                "' is none of enter_thread, create_event, copy_to_device, record_event, query_event");
}

std::map<std::string, std::uint64_t> EmulatedDevice::call_counts() const {
    const Lock lock(mutex_);
    std::map<std::string, std::uint64_t> counts;
    for (std::size_t i = 0; i < kNumCalls; ++i) counts[kCallNames[i].function] = call_counts_[i];
    return counts;
}

EmulatedDevice::Stream& EmulatedDevice::stream_at(StreamId stream) {
    return const_cast<Stream&>(std::as_const(*this).stream_at(stream));
}

const EmulatedDevice::Stream& EmulatedDevice::stream_at(StreamId stream) const {
    const auto place = streams_.find(stream);
    if (place == streams_.end()) throw std::invalid_argument("no stream " + std::to_string(stream));
    return place->second;
}

const std::shared_ptr<EmulatedDevice::Ticket>& EmulatedDevice::ticket_of(EventId event) const {
    const auto place = events_.find(event);
    if (place == events_.end()) throw std::invalid_argument("no event " + std::to_string(event));
    return place->second;
}

void EmulatedDevice::append(StreamId stream, Operation operation) {
    stream_at(stream).operations.push_back(std::move(operation));
    settle();
}

void EmulatedDevice::settle() {
    for (auto& [id, stream] : streams_) {
        if (stream.is_running()) continue;
        std::deque<Operation>& operations = stream.operations;
        while (!operations.empty() && operations.front().waits_for != nullptr &&
               operations.front().waits_for->is_done) {
            operations.pop_front();
        }
        if (operations.empty() || operations.front().poison == nullptr) continue;
        operations.front().poison();
        operations.front().poison = nullptr;
    }
    changed_.notify_all();
}

std::vector<EmulatedDevice::Stream*> EmulatedDevice::streams_to_step() {
    std::vector<Stream*> streams;
    for (auto& [id, stream] : streams_) {
        if (stream.can_step()) streams.push_back(&stream);
    }
    return streams;
}

void EmulatedDevice::run_first(Stream& stream, Lock& lock) {
    Operation& operation = stream.operations.front();  // stays where it is until Running ends
    const Running running(*this, stream, lock);
    const std::function<void()> run = std::move(operation.run);  // what it owns is released without the lock
    if (run != nullptr) run();
}

void EmulatedDevice::run_until_done(const Ticket& ticket, Lock& lock) {
    while (!ticket.is_done) {
        Stream& stream = stream_in_the_way(stream_at(ticket.stream));
        if (stream.is_running()) {
            wait_for_runner(stream, lock);
        } else {
            run_first(stream, lock);
        }
    }
}

// Ends: a wait is for a record queued before it, so no stream comes up again at an older operation.
EmulatedDevice::Stream& EmulatedDevice::stream_in_the_way(Stream& stream) {
    Stream* first = &stream;
    while (!first->is_running() && first->operations.front().waits_for != nullptr) {
        first = &stream_at(first->operations.front().waits_for->stream);
    }
    return *first;
}

void EmulatedDevice::wait_for_runner(const Stream& stream, Lock& lock) {
    if (waits_for_this_thread(stream)) {
        throw std::logic_error("the emulated device cannot go on: an operation waits for itself to end");
    }
    const std::thread::id self = std::this_thread::get_id();
    waiting_[self] = &stream;
    changed_.wait(lock);
    waiting_.erase(self);
}

bool EmulatedDevice::waits_for_this_thread(const Stream& first) const {
    for (const Stream* stream = &first; stream->is_running();) {
        if (stream->runner == std::this_thread::get_id()) return true;
        const auto next = waiting_.find(stream->runner);
        if (next == waiting_.end()) return false;
        stream = next->second;
    }
    return false;
}

}  // namespace fastload

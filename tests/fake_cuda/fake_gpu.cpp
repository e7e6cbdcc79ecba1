#include "fake_gpu.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>

#include "cudart.h"

namespace fake_cuda {
namespace {

// A handle has the number of its GPU, from 1, above these bits.
constexpr int kHandleBits = 32;

// Read without a lock, which in a forked child could be held by a thread that has not come along.
constexpr int kMaxGpus = 1 << 14;
std::atomic<FakeGpu*> gpus[kMaxGpus];
std::atomic<int> num_gpus{0};  // of those that were begun to be added

constexpr const char* kFunctions[] = {
    "cudaDriverGetVersion",
    "cudaEventCreateWithFlags",
    "cudaEventDestroy",
    "cudaEventQuery",
    "cudaEventRecord",
    "cudaGetDevice",
    "cudaGetDeviceCount",
    "cudaMemcpyAsync",
    "cudaRuntimeGetVersion",
    "cudaSetDevice",
    "cudaStreamCreateWithFlags",
    "cudaStreamWaitEvent",
    "cudaThreadExchangeStreamCaptureMode",
};

void check_function(const std::string& function) {
    std::string known;
    for (const char* const name : kFunctions) {
        if (function == name) return;
        known += (known.empty() ? "" : ", ") + std::string(name);
    }
    throw std::invalid_argument("'" + function + "' is none of " + known);
}

// Returns the result of body(), or the error for the exception that it throws.
template <typename Body>
int error_of(Body body) noexcept {
    try {
        return body();
    } catch (const std::invalid_argument&) {
        return kInvalidResourceHandle;
    } catch (const std::bad_alloc&) {
        return kMemoryAllocation;
    }
}

}  // namespace

// While it lives, the calling thread runs the first operation of a stream, without the lock. Ends the operation also
// where it throws or its thread is unwound.
class FakeGpu::Running {
  public:
    Running(FakeGpu& gpu, Stream& stream, Lock& lock) : gpu_(gpu), stream_(stream), lock_(lock) {
        stream_.runner = std::this_thread::get_id();
        lock_.unlock();
    }
    ~Running() {
        lock_.lock();
        const Operation& operation = stream_.operations.front();
        if (operation.completes != nullptr) operation.completes->is_done = true;
        stream_.operations.pop_front();
        stream_.runner = std::thread::id();
        gpu_.settle();
    }
    Running(const Running&) = delete;  // a scope, not a value
    Running& operator=(const Running&) = delete;

  private:
    FakeGpu& gpu_;
    Stream& stream_;
    Lock& lock_;
};

FakeGpu& FakeGpu::add() {
    const int number = num_gpus++;
    if (number >= kMaxGpus) throw std::length_error("too many fake GPUs");
    return *(gpus[number] = new FakeGpu(number));
}

int FakeGpu::count() noexcept { return std::min<int>(num_gpus, kMaxGpus); }

FakeGpu* FakeGpu::at(int number) noexcept { return number >= 0 && number < count() ? gpus[number].load() : nullptr; }

FakeGpu& FakeGpu::of(Handle handle) {
    FakeGpu* const gpu = at(static_cast<int>(handle >> kHandleBits) - 1);
    if (gpu == nullptr) throw std::invalid_argument("no stream or event " + std::to_string(handle));
    return *gpu;
}

FakeGpu::FakeGpu(int number)
    : number_(number),
      first_handle_((static_cast<Handle>(number) + 1) << kHandleBits),
      next_handle_(first_handle_ + 1) {
    streams_[first_handle_];
}

int FakeGpu::begin_call(const std::string& function, bool is_work) noexcept {
    const Lock lock(mutex_);
    return error_of([&] {
        ++call_counts_[function];
        int injected = 0;
        for (Injection& injection : injections_) {
            if (injection.function != function || injection.calls_left == 0 || --injection.calls_left != 0) continue;
            if (injection.is_sticky) sticky_error_ = injection.error;
            injected = injection.error;
        }
        return is_work && sticky_error_ != 0 ? sticky_error_ : injected;
    });
}

int FakeGpu::create_stream(Handle* stream) noexcept {
    const Lock lock(mutex_);
    return error_of([&] {
        streams_[next_handle_];
        *stream = next_handle_++;
        return 0;
    });
}

int FakeGpu::create_event(Handle* event) noexcept {
    const Lock lock(mutex_);
    return error_of([&] {
        events_.emplace(next_handle_, nullptr);
        *event = next_handle_++;
        return 0;
    });
}

int FakeGpu::destroy_event(Handle event) noexcept {
    const Lock lock(mutex_);
    return events_.erase(event) == 0 ? kInvalidResourceHandle : 0;
}

int FakeGpu::copy(void* to, const void* from, std::size_t size_bytes, Handle stream) noexcept {
    const Lock lock(mutex_);
    return error_of([&] {
        Operation copy;
        copy.poison = [to, size_bytes] { std::memset(to, kPoison, size_bytes); };
        copy.run = [to, from, size_bytes] { std::memcpy(to, from, size_bytes); };
        append(stream, std::move(copy));
        return 0;
    });
}

int FakeGpu::record_event(Handle event, Handle stream) noexcept {
    const Lock lock(mutex_);
    return error_of([&] {
        static_cast<void>(ticket_of(event));
        Operation record;
        record.completes = std::make_shared<Ticket>(Ticket{stream});
        std::shared_ptr<Ticket> ticket = record.completes;
        append(stream, std::move(record));
        events_[event] = std::move(ticket);
        return 0;
    });
}

int FakeGpu::query_event(Handle event, bool* is_done) noexcept {
    const Lock lock(mutex_);
    return error_of([&] {
        const std::shared_ptr<Ticket>& ticket = ticket_of(event);
        *is_done = ticket == nullptr || ticket->is_done;
        return 0;
    });
}

int FakeGpu::wait_event(Handle stream, Handle event) noexcept {
    const Lock lock(mutex_);
    return error_of([&] {
        static_cast<void>(stream_at(stream));
        Operation wait;
        wait.waits_for = ticket_of(event);
        if (wait.waits_for != nullptr) append(stream, std::move(wait));
        return 0;
    });
}

bool FakeGpu::has_context() const noexcept {
    const Lock lock(mutex_);
    return has_context_;
}

void FakeGpu::make_context() noexcept {
    const Lock lock(mutex_);
    has_context_ = true;
}

void FakeGpu::enqueue(Handle stream, Kernel kernel) {
    const Lock lock(mutex_);
    Operation operation;
    operation.run = std::move(kernel);
    append(stream, std::move(operation));
}

bool FakeGpu::step(Handle id) {
    Lock lock(mutex_);
    Stream& stream = stream_at(id);
    if (!stream.can_step()) return false;
    run_first(stream, lock);
    return true;
}

bool FakeGpu::step_any(std::uint64_t random) {
    Lock lock(mutex_);
    const std::vector<Stream*> streams = streams_to_step();
    if (streams.empty()) return false;
    run_first(*streams[random % streams.size()], lock);
    return true;
}

bool FakeGpu::wait_for_work(double timeout_seconds) {
    Lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::duration<double>(timeout_seconds),
                             [this] { return !streams_to_step().empty(); });
}

void FakeGpu::synchronize(Handle stream) {
    Lock lock(mutex_);
    const auto ticket = std::make_shared<Ticket>(Ticket{stream});
    Operation end;
    end.completes = ticket;
    append(stream, std::move(end));
    while (!ticket->is_done) {
        Stream& first = stream_in_the_way(stream_at(stream));
        if (first.is_running()) {
            changed_.wait(lock);
        } else {
            run_first(first, lock);
        }
    }
}

void FakeGpu::synchronize_all() {
    Lock lock(mutex_);
    for (std::size_t turn = 0;; ++turn) {
        const std::vector<Stream*> streams = streams_to_step();
        if (!streams.empty()) {
            run_first(*streams[turn % streams.size()], lock);
            continue;
        }
        const auto is_busy = [](const auto& entry) { return !entry.second.operations.empty(); };
        if (std::none_of(streams_.begin(), streams_.end(), is_busy)) return;
        changed_.wait(lock);
    }
}

std::size_t FakeGpu::num_pending(Handle stream) const {
    const Lock lock(mutex_);
    return stream_at(stream).operations.size();
}

std::size_t FakeGpu::num_events() const {
    const Lock lock(mutex_);
    return events_.size();
}

void FakeGpu::fail_call(const std::string& function, std::uint64_t n, int error, bool is_sticky) {
    check_function(function);
    if (n == 0 || error == 0) throw std::invalid_argument("n and error must be positive");
    const Lock lock(mutex_);
    injections_.push_back({function, n, error, is_sticky});
}

std::uint64_t FakeGpu::call_count(const std::string& function) const {
    check_function(function);
    const Lock lock(mutex_);
    const auto place = call_counts_.find(function);
    return place == call_counts_.end() ? 0 : place->second;
}

FakeGpu::Stream& FakeGpu::stream_at(Handle stream) {
    return const_cast<Stream&>(std::as_const(*this).stream_at(stream));
}

const FakeGpu::Stream& FakeGpu::stream_at(Handle stream) const {
    const auto place = streams_.find(stream);
    if (place == streams_.end()) throw std::invalid_argument("no stream " + std::to_string(stream));
    return place->second;
}

const std::shared_ptr<FakeGpu::Ticket>& FakeGpu::ticket_of(Handle event) const {
    const auto place = events_.find(event);
    if (place == events_.end()) throw std::invalid_argument("no event " + std::to_string(event));
    return place->second;
}

void FakeGpu::append(Handle stream, Operation operation) {
    stream_at(stream).operations.push_back(std::move(operation));
    settle();
}

void FakeGpu::settle() {
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

std::vector<FakeGpu::Stream*> FakeGpu::streams_to_step() {
    std::vector<Stream*> streams;
    for (auto& [id, stream] : streams_) {
        if (stream.can_step()) streams.push_back(&stream);
    }
    return streams;
}

void FakeGpu::run_first(Stream& stream, Lock& lock) {
    Operation& operation = stream.operations.front();  // stays where it is until Running ends
    const Running running(*this, stream, lock);
    const std::function<void()> run = std::move(operation.run);  // what it owns is released without the lock
    if (run != nullptr) run();
}

// Ends: a wait is for a record queued before it, so no stream comes up again at an older operation.
FakeGpu::Stream& FakeGpu::stream_in_the_way(Stream& stream) {
    Stream* first = &stream;
    while (!first->is_running() && first->operations.front().waits_for != nullptr) {
        first = &stream_at(first->operations.front().waits_for->stream);
    }
    return *first;
}

}  // namespace fake_cuda

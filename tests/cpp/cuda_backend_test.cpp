// The calls that the CUDA device makes, on a table of functions that record them.
#include "cuda/cuda_backend.h"

#include <string>
#include <utility>

#include "check.h"

namespace fastload {
namespace {

// What the fake runtime holds for the one thread of these tests.
struct FakeRuntime {
    std::string calls;
    int device = 0;
    int mode = 0;
    int last_error = 0;
    std::string failing;  // the function that returns `error`
    int error = 0;
    int has_context = 1;
};

FakeRuntime& fake() {
    static FakeRuntime runtime;
    return runtime;
}

int result_of(const char* function, const std::string& arguments = "") {
    FakeRuntime& runtime = fake();
    runtime.calls += (runtime.calls.empty() ? "" : " ") + std::string(function) + "(" + arguments + ")";
    if (runtime.failing != function) return 0;
    runtime.last_error = runtime.error;
    return runtime.error;
}

int get_device(int* device) {
    *device = fake().device;
    return result_of("get_device");
}
int set_device(int device) {
    const int error = result_of("set_device", std::to_string(device));
    if (error == 0) fake().device = device;
    return error;
}
int exchange_mode(int* mode) {
    const int error = result_of("exchange", std::to_string(*mode));
    if (error == 0) std::swap(*mode, fake().mode);
    return error;
}
int create_event(void** event, unsigned int flags) {
    *event = event;
    return result_of("create", std::to_string(flags));
}
int destroy_event(void*) { return result_of("destroy"); }
int record_event(void*, void* stream) {
    return result_of("record", std::to_string(reinterpret_cast<std::uintptr_t>(stream)));
}
int query_event(void*) { return result_of("query"); }
int copy(void*, const void*, std::size_t size_bytes, int kind, void* stream) {
    return result_of("copy", std::to_string(size_bytes) + "," + std::to_string(kind) + "," +
                                 std::to_string(reinterpret_cast<std::uintptr_t>(stream)));
}
const char* error_name(int) { return "cudaErrorName"; }
const char* error_text(int) { return "a sentence"; }
int last_error() {
    const int error = fake().last_error;
    fake().last_error = 0;
    return error;
}
int primary_context(int, unsigned int*, int* is_active) {
    *is_active = fake().has_context;
    return 0;
}

CudaRuntime table() {
    CudaRuntime runtime;
    runtime.get_device = get_device;
    runtime.set_device = set_device;
    runtime.thread_exchange_stream_capture_mode = exchange_mode;
    runtime.event_create_with_flags = create_event;
    runtime.event_destroy = destroy_event;
    runtime.event_record = record_event;
    runtime.event_query = query_event;
    runtime.memcpy_async = copy;
    runtime.get_error_name = error_name;
    runtime.get_error_string = error_text;
    runtime.get_last_error = last_error;
    runtime.primary_context_get_state = primary_context;
    return runtime;
}

CudaBackend fresh_backend(const FakeRuntime& state, int device) {
    fake() = state;
    return {table(), device};
}

TEST_CASE(cuda_scope_sets_device_and_capture_mode_and_puts_both_back) {
    FakeRuntime state;
    state.mode = 1;
    CudaBackend backend = fresh_backend(state, 3);
    {
        const DeviceScope scope(backend);
        CHECK(scope.status().is_ok());
        CHECK_EQUAL(fake().device, 3);
        CHECK_EQUAL(fake().mode, 2);
    }
    CHECK_EQUAL(fake().device, 0);
    CHECK_EQUAL(fake().mode, 1);
    CHECK(fake().calls == "get_device() set_device(3) exchange(2) exchange(1) set_device(0)");
}

TEST_CASE(cuda_scope_of_a_thread_at_the_device_does_not_set_it) {
    FakeRuntime state;
    state.device = 3;
    CudaBackend backend = fresh_backend(state, 3);
    {
        const DeviceScope scope(backend);
    }
    CHECK(fake().calls == "get_device() exchange(2) exchange(0)");
}

TEST_CASE(cuda_scope_makes_no_context_on_the_device_a_thread_never_chose) {
    FakeRuntime state;
    state.has_context = 0;
    CudaBackend backend = fresh_backend(state, 1);
    {
        const DeviceScope scope(backend);
    }
    CHECK(fake().calls == "get_device() set_device(1) exchange(2) exchange(0)");
}

TEST_CASE(cuda_scope_that_fails_halfway_puts_the_device_back_and_clears_the_error) {
    FakeRuntime state;
    state.failing = "exchange";
    state.error = 1;
    CudaBackend backend = fresh_backend(state, 1);
    {
        const DeviceScope scope(backend);
        CHECK_EQUAL(scope.status().error, 1);
        CHECK(std::string(scope.status().call) == "cudaThreadExchangeStreamCaptureMode");
    }
    CHECK(fake().calls == "get_device() set_device(1) exchange(2) set_device(0)");
    CHECK_EQUAL(fake().last_error, 0);
}

TEST_CASE(cuda_events_have_no_timing_and_copies_go_from_host_to_device) {
    CudaBackend backend = fresh_backend({}, 0);
    EventId event = 0;
    char bytes[2] = {};
    CHECK(backend.create_event(&event).is_ok());
    CHECK(event != 0);
    CHECK(backend.copy_to_device(bytes, bytes + 1, 1, 77).is_ok());
    CHECK(backend.record_event(event, 77).is_ok());
    backend.destroy_event(event);
    CHECK(fake().calls == "create(2) copy(1,1,77) record(77) destroy()");
}

TEST_CASE(cuda_event_that_is_not_ready_is_no_error_and_leaves_none_behind) {
    FakeRuntime state;
    state.failing = "query";
    state.error = kCudaErrorNotReady;
    CudaBackend backend = fresh_backend(state, 0);
    bool is_done = true;
    CHECK(backend.query_event(1, &is_done).is_ok());
    CHECK(!is_done);
    CHECK_EQUAL(fake().last_error, 0);
    fake().failing = "";
    CHECK(backend.query_event(1, &is_done).is_ok());
    CHECK(is_done);
}

TEST_CASE(cuda_errors_keep_the_runtimes_name_and_sentence_and_are_cleared) {
    FakeRuntime state;
    state.failing = "copy";
    state.error = 700;
    CudaBackend backend = fresh_backend(state, 0);
    const DeviceStatus status = backend.copy_to_device(nullptr, nullptr, 0, 0);
    CHECK_EQUAL(status.error, 700);
    CHECK(std::string(status.name) == "cudaErrorName");
    CHECK(std::string(status.text) == "a sentence");
    CHECK(std::string(status.call) == "cudaMemcpyAsync");
    CHECK_EQUAL(fake().last_error, 0);
}

}  // namespace
}  // namespace fastload

// The calls that the CUDA backend makes, according to the log of the fake runtime.
#include "cuda/cuda_backend.h"

#include <string>

#include "check.h"
#include "fake_cuda/cudart.h"
#include "fake_cuda/fake_runtime.h"
#include "opened_gpu.h"

namespace fastload {
namespace {

using fake_cuda::FakeGpu;
using testing::new_gpu;

// A table of the runtime with the driver's function, which is not found if no driver is loaded.
CudaBackend backend_at(const FakeGpu& gpu) {
    CudaRuntime runtime;
    CHECK(find_cuda_runtime(12, &runtime).empty());
    runtime.primary_context_get_state = cuDevicePrimaryCtxGetState;
    return {runtime, gpu.number()};
}

// For its scope the calling thread begins at this GPU, in this mode.
class ThreadAt {
  public:
    explicit ThreadAt(const FakeGpu& gpu, int mode = fake_cuda::kCaptureModeGlobal) {
        fake_cuda::reset_thread(gpu.number());
        cudaThreadExchangeStreamCaptureMode(&mode);
        fake_cuda::take_log();
    }
    ~ThreadAt() { fake_cuda::reset_thread(0); }
    ThreadAt(const ThreadAt&) = delete;  // a scope, not a value
    ThreadAt& operator=(const ThreadAt&) = delete;
};

std::string set_device(const FakeGpu& gpu) { return "cudaSetDevice(" + std::to_string(gpu.number()) + ")"; }

std::string exchange(int mode) { return "cudaThreadExchangeStreamCaptureMode(" + std::to_string(mode) + ")"; }

int device_of_thread() {
    int device = -1;
    cudaGetDevice(&device);
    return device;
}

// Also exchanges it.
int mode_of_thread() {
    int mode = 0;
    cudaThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

TEST_CASE(cuda_scope_sets_device_and_capture_mode_and_puts_both_back) {
    FakeGpu& first = new_gpu();
    FakeGpu& second = new_gpu();
    first.make_context();
    CudaBackend backend = backend_at(second);
    const ThreadAt thread(first, 1);
    {
        const DeviceScope scope(backend);
        CHECK(scope.status().is_ok());
        CHECK(fake_cuda::take_log() == "cudaGetDevice() " + set_device(second) + " " + exchange(2));
        CHECK_EQUAL(device_of_thread(), second.number());
        fake_cuda::take_log();
    }
    CHECK(fake_cuda::take_log() == exchange(1) + " " + set_device(first));
    CHECK_EQUAL(device_of_thread(), first.number());
    CHECK_EQUAL(mode_of_thread(), 1);
}

TEST_CASE(cuda_scope_of_a_thread_at_the_device_does_not_set_it) {
    FakeGpu& gpu = new_gpu();
    CudaBackend backend = backend_at(gpu);
    const ThreadAt thread(gpu);
    {
        const DeviceScope scope(backend);
    }
    CHECK(fake_cuda::take_log() == "cudaGetDevice() " + exchange(2) + " " + exchange(0));
}

TEST_CASE(cuda_scope_makes_no_context_on_the_device_a_thread_never_chose) {
    FakeGpu& first = new_gpu();
    FakeGpu& second = new_gpu();
    CudaBackend backend = backend_at(second);
    const ThreadAt thread(first);
    {
        const DeviceScope scope(backend);
    }
    CHECK(fake_cuda::take_log() == "cudaGetDevice() " + set_device(second) + " " + exchange(2) + " " + exchange(0));
    CHECK(!first.has_context());
}

TEST_CASE(cuda_scope_that_fails_halfway_puts_the_device_back_and_clears_the_error) {
    FakeGpu& first = new_gpu();
    FakeGpu& second = new_gpu();
    first.make_context();
    CudaBackend backend = backend_at(second);
    const ThreadAt thread(first);
    second.fail_call("cudaThreadExchangeStreamCaptureMode", 1, 1);
    {
        const DeviceScope scope(backend);
        CHECK_EQUAL(scope.status().error, 1);
        CHECK(std::string(scope.status().call) == "cudaThreadExchangeStreamCaptureMode");
    }
    CHECK(fake_cuda::take_log() ==
          "cudaGetDevice() " + set_device(second) + " " + exchange(2) + " " + set_device(first));
    CHECK_EQUAL(cudaGetLastError(), 0);
}

TEST_CASE(cuda_scope_that_cannot_begin_changes_nothing_and_clears_the_error) {
    FakeGpu& first = new_gpu();
    FakeGpu& second = new_gpu();
    CudaBackend backend = backend_at(second);
    const ThreadAt thread(first);
    first.fail_call("cudaGetDevice", 1, 2);
    second.fail_call("cudaSetDevice", 1, 2);
    for (const char* const call : {"cudaGetDevice", "cudaSetDevice"}) {
        const DeviceScope scope(backend);
        CHECK_EQUAL(scope.status().error, 2);
        CHECK(std::string(scope.status().call) == call);
    }
    CHECK(fake_cuda::take_log() == "cudaGetDevice() cudaGetDevice() " + set_device(second));
    CHECK_EQUAL(cudaGetLastError(), 0);
}

// A backend with a stream, and a scope of it in the test's thread.
struct Entered {
    FakeGpu& gpu = new_gpu();
    CudaBackend backend = backend_at(gpu);
    const ThreadAt thread{gpu, fake_cuda::kCaptureModeRelaxed};
    StreamId stream = 0;

    Entered() { CHECK_EQUAL(gpu.create_stream(&stream), 0); }
};

TEST_CASE(cuda_events_have_no_timing_and_copies_go_from_host_to_device) {
    Entered entered;
    EventId event = 0;
    char bytes[2] = {};
    CHECK(entered.backend.create_event(&event).is_ok());
    CHECK(event != 0);
    CHECK(entered.backend.copy_to_device(bytes, bytes + 1, 1, entered.stream).is_ok());
    CHECK(entered.backend.record_event(event, entered.stream).is_ok());
    entered.backend.destroy_event(event);
    const std::string stream = std::to_string(entered.stream);
    CHECK(fake_cuda::take_log() == "cudaEventCreateWithFlags(2) cudaMemcpyAsync(1,1," + stream + ") cudaEventRecord(" +
                                       stream + ") cudaEventDestroy()");
}

TEST_CASE(cuda_event_that_is_not_ready_is_no_error_and_leaves_none_behind) {
    Entered entered;
    EventId event = 0;
    CHECK(entered.backend.create_event(&event).is_ok());
    CHECK(entered.backend.record_event(event, entered.stream).is_ok());
    bool is_done = true;
    CHECK(entered.backend.query_event(event, &is_done).is_ok());
    CHECK(!is_done);
    CHECK_EQUAL(cudaGetLastError(), 0);
    entered.gpu.run_until(event);
    CHECK(entered.backend.query_event(event, &is_done).is_ok());
    CHECK(is_done);
}

TEST_CASE(cuda_errors_keep_the_runtimes_name_and_sentence_and_are_cleared) {
    Entered entered;
    entered.gpu.fail_call("cudaMemcpyAsync", 1, fake_cuda::kIllegalAddress);
    const DeviceStatus status = entered.backend.copy_to_device(nullptr, nullptr, 0, entered.stream);
    CHECK_EQUAL(status.error, 700);
    CHECK(std::string(status.name) == "cudaErrorIllegalAddress");
    CHECK(std::string(status.text) == "an illegal memory access was encountered");
    CHECK(std::string(status.call) == "cudaMemcpyAsync");
    CHECK_EQUAL(cudaGetLastError(), 0);
}

}  // namespace
}  // namespace fastload

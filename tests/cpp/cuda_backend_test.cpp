// The calls of scopes that begin or end in an unusual way; tests/unit/test_cuda_runtime.py has the usual ones.
#include "cuda/cuda_backend.h"

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

// For its scope the calling thread begins at this GPU.
class ThreadAt {
  public:
    explicit ThreadAt(const FakeGpu& gpu) {
        fake_cuda::reset_thread(gpu.number());
        fake_cuda::take_log();
    }
    ~ThreadAt() { fake_cuda::reset_thread(0); }
    ThreadAt(const ThreadAt&) = delete;  // a scope, not a value
    ThreadAt& operator=(const ThreadAt&) = delete;
};

std::string set_device(const FakeGpu& gpu) { return "cudaSetDevice(" + std::to_string(gpu.number()) + ")"; }

std::string exchange(int mode) { return "cudaThreadExchangeStreamCaptureMode(" + std::to_string(mode) + ")"; }

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

}  // namespace
}  // namespace fastload

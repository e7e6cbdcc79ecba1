// The functions of the CUDA runtime over the GPUs of fake_gpu.h. A thread begins at GPU 0, as with CUDA.
//
// They are stricter than CUDA, to find code that forgets to choose a device or the relaxed mode: an event or stream is
// known at its own GPU only, and calls that another thread's capture of a graph may forbid are errors in every thread
// that has not chosen the relaxed mode.
#include "cudart.h"

#include <cstdint>
#include <string>
#include <utility>

#include "fake_gpu.h"
#include "fake_runtime.h"

namespace {

using fake_cuda::FakeGpu;
using fake_cuda::Handle;

struct ErrorName {
    int error;
    const char* name;
    const char* text;
};

// As the CUDA runtime names them.
constexpr ErrorName kErrorNames[] = {
    {0, "cudaSuccess", "no error"},
    {fake_cuda::kInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {fake_cuda::kMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {3, "cudaErrorInitializationError", "initialization error"},
    {fake_cuda::kInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {35, "cudaErrorInsufficientDriver", "CUDA driver version is insufficient for CUDA runtime version"},
    {fake_cuda::kNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {fake_cuda::kInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {fake_cuda::kInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {fake_cuda::kNotReady, "cudaErrorNotReady", "device not ready"},
    {fake_cuda::kIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {fake_cuda::kLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {fake_cuda::kStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
};
constexpr ErrorName kUnknownError = {999, "cudaErrorUnknown", "unknown error"};

const ErrorName& name_of(int error) {
    for (const ErrorName& known : kErrorNames) {
        if (known.error == error) return known;
    }
    return kUnknownError;
}

int runtime_version = 12040;
int driver_version = 99000;

struct ThreadState {
    int device = 0;
    int mode = fake_cuda::kCaptureModeGlobal;
    int last_error = 0;
    bool is_logging = false;
    std::string log;
};

ThreadState& this_thread() {
    thread_local ThreadState state;
    return state;
}

Handle handle_of(void* pointer) { return reinterpret_cast<Handle>(pointer); }

// Null is the default stream.
Handle stream_of(const FakeGpu& gpu, void* stream) {
    return stream == nullptr ? gpu.default_stream() : handle_of(stream);
}

int returned(int error) {
    if (error != 0) this_thread().last_error = error;
    return error;
}

void log(const char* function, const std::string& arguments) {
    ThreadState& thread = this_thread();
    if (!thread.is_logging) return;
    thread.log += (thread.log.empty() ? "" : " ") + std::string(function) + "(" + arguments + ")";
}

enum class Kind { kAsk, kWork };

// A call at `gpu`, null where there is none; what body() returns, unless it fails before.
template <typename Body>
int call(Kind kind, const char* function, FakeGpu* gpu, const std::string& arguments, Body body) {
    log(function, arguments);
    const int error = gpu == nullptr ? 0 : gpu->begin_call(function, kind == Kind::kWork);
    return returned(error == 0 ? body() : error);
}

// A call at the GPU of the calling thread, which another thread's capture may forbid.
template <typename Body>
int work(const char* function, const std::string& arguments, Body body) {
    FakeGpu* const gpu = FakeGpu::at(this_thread().device);
    return call(Kind::kWork, function, gpu, arguments, [&] {
        if (gpu == nullptr) return fake_cuda::kNoDevice;
        if (this_thread().mode != fake_cuda::kCaptureModeRelaxed) return fake_cuda::kStreamCaptureUnsupported;
        return body(*gpu);
    });
}

// A call that asks for or changes something of the calling thread, or of the process.
template <typename Body>
int ask(const char* function, const std::string& arguments, Body body) {
    return call(Kind::kAsk, function, FakeGpu::at(this_thread().device), arguments, [&] {
        body();
        return 0;
    });
}

}  // namespace

namespace fake_cuda {

void set_versions(int runtime, int driver) {
    runtime_version = runtime;
    driver_version = driver;
}

void reset_thread(int device) {
    this_thread() = ThreadState();
    this_thread().device = device;
}

std::string take_log() {
    this_thread().is_logging = true;
    return std::exchange(this_thread().log, {});
}

}  // namespace fake_cuda

extern "C" {

int cudaRuntimeGetVersion(int* version) {
    return ask("cudaRuntimeGetVersion", "", [&] { *version = runtime_version; });
}

int cudaDriverGetVersion(int* version) {
    return ask("cudaDriverGetVersion", "", [&] { *version = driver_version; });
}

int cudaGetDeviceCount(int* count) {
    return ask("cudaGetDeviceCount", "", [&] { *count = FakeGpu::count(); });
}

int cudaGetDevice(int* device) {
    return ask("cudaGetDevice", "", [&] { *device = this_thread().device; });
}

int cudaSetDevice(int device) {
    FakeGpu* const gpu = FakeGpu::at(device);
    return call(Kind::kWork, "cudaSetDevice", gpu, std::to_string(device), [&] {
        if (gpu == nullptr) return fake_cuda::kInvalidDevice;
        gpu->make_context();
        this_thread().device = device;
        return 0;
    });
}

int cudaThreadExchangeStreamCaptureMode(int* mode) {
    return ask("cudaThreadExchangeStreamCaptureMode", std::to_string(*mode),
               [&] { std::swap(*mode, this_thread().mode); });
}

int cudaStreamCreateWithFlags(void** stream, unsigned int flags) {
    return work("cudaStreamCreateWithFlags", std::to_string(flags), [&](FakeGpu& gpu) {
        Handle handle = 0;
        const int error = gpu.create_stream(&handle);
        *stream = reinterpret_cast<void*>(handle);
        return error;
    });
}

int cudaStreamWaitEvent(void* stream, void* event, unsigned int flags) {
    return work("cudaStreamWaitEvent", std::to_string(flags),
                [&](FakeGpu& gpu) { return gpu.wait_event(stream_of(gpu, stream), handle_of(event)); });
}

int cudaEventCreateWithFlags(void** event, unsigned int flags) {
    return work("cudaEventCreateWithFlags", std::to_string(flags), [&](FakeGpu& gpu) {
        Handle handle = 0;
        const int error = gpu.create_event(&handle);
        if (error == 0) *event = reinterpret_cast<void*>(handle);
        return error;
    });
}

int cudaEventDestroy(void* event) {
    return work("cudaEventDestroy", "", [&](FakeGpu& gpu) { return gpu.destroy_event(handle_of(event)); });
}

int cudaEventRecord(void* event, void* stream) {
    return work("cudaEventRecord", std::to_string(handle_of(stream)),
                [&](FakeGpu& gpu) { return gpu.record_event(handle_of(event), stream_of(gpu, stream)); });
}

int cudaEventQuery(void* event) {
    return work("cudaEventQuery", "", [&](FakeGpu& gpu) {
        bool is_done = false;
        const int error = gpu.query_event(handle_of(event), &is_done);
        return error == 0 && !is_done ? fake_cuda::kNotReady : error;
    });
}

int cudaMemcpyAsync(void* to, const void* from, std::size_t size_bytes, int kind, void* stream) {
    const std::string arguments =
        std::to_string(size_bytes) + "," + std::to_string(kind) + "," + std::to_string(handle_of(stream));
    return work("cudaMemcpyAsync", arguments, [&](FakeGpu& gpu) {
        if (kind != fake_cuda::kHostToDevice) return fake_cuda::kInvalidMemcpyDirection;
        return gpu.copy(to, from, size_bytes, stream_of(gpu, stream));
    });
}

const char* cudaGetErrorName(int error) { return name_of(error).name; }

const char* cudaGetErrorString(int error) { return name_of(error).text; }

int cudaGetLastError() { return std::exchange(this_thread().last_error, 0); }

int cuDevicePrimaryCtxGetState(int device, unsigned int*, int* is_active) {
    const FakeGpu* const gpu = FakeGpu::at(device);
    if (gpu == nullptr) return fake_cuda::kInvalidDevice;
    *is_active = gpu->has_context() ? 1 : 0;
    return 0;
}

}  // extern "C"

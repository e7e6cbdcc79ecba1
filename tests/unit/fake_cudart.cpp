// A CUDA runtime that records its calls, for test_cuda_runtime.py, which builds it, sets its variables and reads its
// log. FAKE_VERSION is what it says its version is; with FAKE_WITHOUT_QUERY it has no cudaEventQuery.
#include <cstddef>
#include <cstdio>
#include <cstring>

extern "C" {

char fake_log[4096];
int fake_driver_version = 99000;
int fake_device_count = 2;
int fake_error = 0;  // what fake_failing returns
char fake_failing[64];
int fake_device = 0;
int fake_mode = 0;
int fake_last_error = 0;

static int result_of(const char* function) {
    std::strcat(std::strcat(fake_log, function), " ");
    if (std::strcmp(function, fake_failing) != 0) return 0;
    return fake_last_error = fake_error;
}

int cudaRuntimeGetVersion(int* version) {
    *version = FAKE_VERSION;
    return result_of("cudaRuntimeGetVersion");
}
int cudaDriverGetVersion(int* version) {
    *version = fake_driver_version;
    return result_of("cudaDriverGetVersion");
}
int cudaGetDeviceCount(int* count) {
    const int error = result_of("cudaGetDeviceCount");
    if (error == 0) *count = fake_device_count;
    return error;
}
int cudaGetDevice(int* device) {
    *device = fake_device;
    return result_of("cudaGetDevice");
}
int cudaSetDevice(int device) {
    fake_device = device;
    return result_of("cudaSetDevice");
}
int cudaThreadExchangeStreamCaptureMode(int* mode) {
    const int before = fake_mode;
    fake_mode = *mode;
    *mode = before;
    return result_of("cudaThreadExchangeStreamCaptureMode");
}
int cudaEventCreateWithFlags(void** event, unsigned int flags) {
    *event = reinterpret_cast<void*>(static_cast<std::size_t>(1000 + flags));
    return result_of("cudaEventCreateWithFlags");
}
int cudaEventDestroy(void*) { return result_of("cudaEventDestroy"); }
int cudaEventRecord(void*, void*) { return result_of("cudaEventRecord"); }
#ifndef FAKE_WITHOUT_QUERY
int cudaEventQuery(void*) { return result_of("cudaEventQuery"); }
#endif
int cudaMemcpyAsync(void* to, const void* from, std::size_t size_bytes, int, void*) {
    const int error = result_of("cudaMemcpyAsync");
    if (error == 0) std::memcpy(to, from, size_bytes);
    return error;
}
const char* cudaGetErrorName(int error) { return error == 3 ? "cudaErrorInitializationError" : "cudaErrorOther"; }
const char* cudaGetErrorString(int error) { return error == 3 ? "initialization error" : "another error"; }
int cudaGetLastError() {
    const int error = fake_last_error;
    fake_last_error = 0;
    return error;
}

}  // extern "C"

// The functions of the CUDA runtime and driver that fastload or its tests call, as CUDA 12 and 13 have them. Two
// libraries have them: the fake runtime, and the fibers of tests/cpp/device_order.
#pragma once

#include <cstddef>

namespace fake_cuda {

// Numbers of cudaError_t.
constexpr int kInvalidValue = 1;
constexpr int kMemoryAllocation = 2;
constexpr int kInvalidMemcpyDirection = 21;
constexpr int kNoDevice = 100;
constexpr int kInvalidDevice = 101;
constexpr int kInvalidResourceHandle = 400;
constexpr int kNotReady = 600;
constexpr int kIllegalAddress = 700;
constexpr int kLaunchFailure = 719;
constexpr int kStreamCaptureUnsupported = 900;

constexpr int kHostToDevice = 1;
// The modes of cudaThreadExchangeStreamCaptureMode.
constexpr int kCaptureModeGlobal = 0;
constexpr int kCaptureModeRelaxed = 2;

}  // namespace fake_cuda

extern "C" {

int cudaRuntimeGetVersion(int* version);
int cudaDriverGetVersion(int* version);
int cudaGetDeviceCount(int* count);
int cudaGetDevice(int* device);
int cudaSetDevice(int device);
int cudaThreadExchangeStreamCaptureMode(int* mode);
int cudaStreamCreateWithFlags(void** stream, unsigned int flags);
int cudaStreamWaitEvent(void* stream, void* event, unsigned int flags);
int cudaEventCreateWithFlags(void** event, unsigned int flags);
int cudaEventDestroy(void* event);
int cudaEventRecord(void* event, void* stream);
int cudaEventQuery(void* event);
int cudaMemcpyAsync(void* to, const void* from, std::size_t size_bytes, int kind, void* stream);
const char* cudaGetErrorName(int error);
const char* cudaGetErrorString(int error);
int cudaGetLastError();

}  // extern "C"

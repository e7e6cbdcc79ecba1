// A GPU of the fake CUDA runtime, and the backend that fastload opens for it.
#pragma once

#include <memory>
#include <new>
#include <stdexcept>
#include <string>

#include "cuda/cuda_backend.h"
#include "fake_cuda/fake_gpu.h"

namespace fastload::testing {

// A new GPU. No test uses GPU 0, where every thread begins, so code that does not choose a device is detected.
inline fake_cuda::FakeGpu& new_gpu() {
    static const fake_cuda::FakeGpu& nobodys = fake_cuda::FakeGpu::add();
    static_cast<void>(nobodys);
    return fake_cuda::FakeGpu::add();
}

inline std::shared_ptr<DeviceBackend> opened(const fake_cuda::FakeGpu& gpu) {
    std::string problem;
    std::shared_ptr<DeviceBackend> backend = open_cuda_backend(12, gpu.number(), &problem);
    if (backend == nullptr) throw std::runtime_error(problem);
    return backend;
}

struct OpenedGpu {
    fake_cuda::FakeGpu& gpu = new_gpu();
    std::shared_ptr<DeviceBackend> backend = opened(gpu);

    StreamId create_stream() {
        StreamId stream = 0;
        if (gpu.create_stream(&stream) != 0) throw std::bad_alloc();
        return stream;
    }
};

}  // namespace fastload::testing

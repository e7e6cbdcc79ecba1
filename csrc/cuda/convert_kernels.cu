#include "cuda/convert_kernels.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "cuda/kernel_status.h"

namespace fastload {
namespace {

constexpr int kThreadsPerBlock = 256;
// As many as a multiprocessor of 2048 threads holds: blocks stay resident, so that each one reads the table once.
constexpr int kBlocksPerMultiprocessor = 8;
constexpr int kTableElements = 3 * 256;

template <typename Element, int kWidth, bool kChannelsLast>
__global__ void __launch_bounds__(kThreadsPerBlock) convert(BatchConversion batch) {
    __shared__ Element table[kTableElements];
    for (unsigned i = threadIdx.x; i < kTableElements; i += blockDim.x) {
        table[i] = static_cast<const Element*>(batch.table)[i];
    }
    __syncthreads();
    const ThreadShare share = {std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x,
                               std::uint64_t{gridDim.x} * blockDim.x};
    if constexpr (kChannelsLast) {
        convert_interleaved<Element, kWidth>(batch, table, share);
    } else {
        convert_planar<Element, kWidth>(batch, table, share);
    }
}

using Kernel = void (*)(BatchConversion);

// Indexed by 2 * is_wide + channels_last.
template <typename Element>
constexpr Kernel kKernels[4] = {convert<Element, 1, false>, convert<Element, 1, true>,
                                convert<Element, 16 / kSize<Element>, false>,
                                convert<Element, 16 / kSize<Element>, true>};

const Kernel* kernels_for(int element_size_bytes) noexcept {
    switch (element_size_bytes) {
        case 1:
            return kKernels<std::uint8_t>;
        case 2:
            return kKernels<std::uint16_t>;
        case 4:
            return kKernels<std::uint32_t>;
        case 8:
            return kKernels<std::uint64_t>;
        default:
            return nullptr;
    }
}

// Enough for all groups, and no more than can run at a time.
DeviceStatus count_blocks(const BatchConversion& batch, int device, unsigned* blocks) noexcept {
    int multiprocessors = 0;
    const cudaError_t error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
    if (error != cudaSuccess) return kernel_status(error, "cudaDeviceGetAttribute");
    const std::uint64_t values = batch.images * batch.pixels_per_image * (batch.channels_last ? 3 : 1);
    const std::uint64_t threads = values / static_cast<unsigned>(group_width(batch)) + 1;
    const std::uint64_t at_a_time = static_cast<std::uint64_t>(multiprocessors) * kBlocksPerMultiprocessor;
    *blocks = static_cast<unsigned>(std::min((threads - 1) / kThreadsPerBlock + 1, at_a_time));
    return {};
}

}  // namespace

int convert_kernels_cuda_version() noexcept { return CUDART_VERSION; }

DeviceStatus load_convert_kernels(int device) noexcept {
    if (const DeviceStatus status = set_kernel_device(device); !status.is_ok()) return status;
    for (const int element_size_bytes : {1, 2, 4, 8}) {
        for (int i = 0; i < 4; ++i) {
            const DeviceStatus status = load_kernel(kernels_for(element_size_bytes)[i]);
            if (!status.is_ok()) return status;
        }
    }
    return {};
}

DeviceStatus launch_convert(const BatchConversion& batch, int device, StreamId stream) noexcept {
    const Kernel* const kernels = kernels_for(batch.element_size_bytes);
    if (kernels == nullptr) return kernel_status(cudaErrorInvalidValue, "launch_convert");
    if (batch.images == 0 || batch.pixels_per_image == 0) return {};
    if (const DeviceStatus status = set_kernel_device(device); !status.is_ok()) return status;
    const bool is_wide = group_width(batch) > 1;
    Kernel const kernel = kernels[2 * is_wide + batch.channels_last];
    unsigned blocks = 0;
    if (const DeviceStatus counted = count_blocks(batch, device, &blocks); !counted.is_ok()) return counted;
    kernel<<<blocks, kThreadsPerBlock, 0, reinterpret_cast<cudaStream_t>(stream)>>>(batch);
    return kernel_status(cudaGetLastError(), "cudaLaunchKernel");
}

}  // namespace fastload

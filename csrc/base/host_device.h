// For code that runs on a CUDA device and on the host.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define FASTLOAD_HOST_DEVICE __host__ __device__
#else
#define FASTLOAD_HOST_DEVICE
#endif

namespace fastload {

// The items first, first + stride, first + 2 * stride, ... of all items; together the threads have each item once.
struct ThreadShare {
    std::uint64_t first;
    std::uint64_t stride;
};

}  // namespace fastload

#include <algorithm>
#include <cmath>

#include "kernels/blur.h"

namespace fastload {
namespace {

constexpr std::size_t kBlock = kBlurColumnAlignment;

// A block of neighbouring pixels. Compilers turn it into vectors if the target processor has the fused instruction;
// otherwise std::fma is a function of the C library.
void blur_block(const BlurJob& job, std::size_t x0, std::size_t y) noexcept {
    const float* padded = job.padded + y * job.padded_stride + x0;
    float sums[kBlock] = {};
    const float* weight = job.weights;
    for (std::int32_t i = 0; i < job.kernel_height; ++i) {
        const float* row = padded + static_cast<std::size_t>(i) * job.padded_stride;
        for (std::int32_t j = 0; j < job.kernel_width; ++j, ++weight) {
            for (std::size_t x = 0; x < kBlock; ++x)
                sums[x] = std::fma(row[x + static_cast<std::size_t>(j)], *weight, sums[x]);
        }
    }
    if (job.sums != nullptr) {
        std::copy(sums, sums + kBlock, job.sums + y * job.sums_stride + x0);
        return;
    }
    std::uint8_t* destination = job.destination + y * job.destination_stride_bytes + x0;
    for (std::size_t x = 0; x < kBlock; ++x) destination[x] = static_cast<std::uint8_t>(std::nearbyint(sums[x]));
}

}  // namespace

void blur_scalar(const BlurJob& job) noexcept {
    const auto width = static_cast<std::size_t>(job.width);
    for (std::size_t y = 0; y < static_cast<std::size_t>(job.height); ++y) {
        for (std::size_t x = 0; x < width; x += kBlock) blur_block(job, x, y);
    }
}

}  // namespace fastload

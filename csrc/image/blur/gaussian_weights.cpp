// The weights as torch computes them: float32 throughout, in the order of torch's own loops, so that they are the same
// to the last bit.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "image/blur/gaussian_blur.h"
#include "image/random/torch_exp.h"

namespace fastload {
namespace {

constexpr std::size_t kMaxLanes = 16;

// 2^exponent, -126..127.
float power_of_two(int exponent) noexcept {
    const auto bits = static_cast<std::uint32_t>(exponent + 127) << 23;
    float value = 0.0F;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
}

// The exp of torch's vectors: expf of SLEEF with an error of 1.0 units in the last place. e^x = 2^n e^r with
// r| <= ln 2 / 2, ln 2 in two parts, and a polynomial for e^r. For x <= 0.
float vector_exp(float x) noexcept {
    if (x < -104.0F) return 0.0F;
    const float n = std::nearbyint(x * 1.44269504F);
    float r = std::fma(n, -0.693145752F, x);
    r = std::fma(n, -1.42860677e-6F, r);
    float polynomial = 0.000198527618F;
    for (const float coefficient : {0.00139304355F, 0.00833336078F, 0.0416664854F, 0.166666672F, 0.5F}) {
        polynomial = std::fma(polynomial, r, coefficient);
    }
    polynomial = 1.0F + std::fma(r * r, polynomial, r);
    // In two factors, because the result may be too small for a normal power of two.
    const int half = static_cast<int>(n) >> 1;
    return polynomial * power_of_two(half) * power_of_two(static_cast<int>(n) - half);
}

// The sum over blocks of `lanes` values, for each position in a block, in four chains that are added at the end.
void sum_blocks(const float* values, std::size_t num_blocks, std::size_t lanes, float* sums) noexcept {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
        float chains[4] = {};
        const std::size_t in_chains = num_blocks / 4 * 4;
        for (std::size_t block = 0; block < num_blocks; ++block) {
            chains[block < in_chains ? block % 4 : 0] += values[block * lanes + lane];
        }
        sums[lane] = ((chains[0] + chains[1]) + chains[2]) + chains[3];
    }
}

// Tensor.sum() of one row.
float torch_sum(const float* values, std::size_t count, std::size_t lanes) noexcept {
    float sums[kMaxLanes];
    if (count < lanes) {
        sum_blocks(values, count, 1, sums);
        return sums[0];
    }
    const std::size_t in_blocks = count / lanes * lanes;
    sum_blocks(values, count / lanes, lanes, sums);
    float sum = 0.0F;
    for (std::size_t i = in_blocks; i < count; ++i) sum += values[i];
    for (std::size_t lane = 0; lane < lanes; ++lane) sum += sums[lane];
    return sum;
}

// The sum inside of torch.softmax: adds halves of a vector to each other until one value is left.
float softmax_sum(const float* values, std::size_t count, std::size_t lanes) noexcept {
    float sums[kMaxLanes];
    if (count < lanes) {
        float sum = values[0];
        for (std::size_t i = 1; i < count; ++i) sum += values[i];
        return sum;
    }
    std::copy(values, values + lanes, sums);
    for (std::size_t i = lanes; i < count; ++i) sums[i % lanes] += values[i];
    for (std::size_t half = lanes / 2; half >= 1; half /= 2) {
        for (std::size_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
    }
    return sums[0];
}

void divide_by_sum(const GaussianKernel& blur, const std::vector<float>& positions, float sigma,
                   float* weights) noexcept {
    for (std::size_t i = 0; i < positions.size(); ++i) {
        const float q = std::fabs(positions[i] / sigma);
        weights[i] = blur.torch_gaussian ? (*blur.torch_gaussian)(q) : rounded_exp(gaussian_exponent(q));
    }
    const float sum = torch_sum(weights, positions.size(), blur.sum_lanes);
    for (std::size_t i = 0; i < positions.size(); ++i) weights[i] /= sum;
}

void softmax(const GaussianKernel& blur, const std::vector<float>& positions, float sigma, float* weights) noexcept {
    for (std::size_t i = 0; i < positions.size(); ++i) {
        const float q = positions[i] / sigma;
        weights[i] = -(q * q);
    }
    const float largest = *std::max_element(weights, weights + positions.size());
    for (std::size_t i = 0; i < positions.size(); ++i) weights[i] = vector_exp(weights[i] - largest);
    const float factor = 1.0F / softmax_sum(weights, positions.size(), blur.sum_lanes);
    for (std::size_t i = 0; i < positions.size(); ++i) weights[i] *= factor;
}

}  // namespace

void compute_gaussian_weights(const GaussianKernel& blur, const std::vector<float>& positions, float sigma,
                              float* weights) noexcept {
    const auto compute = blur.family == TorchvisionFamily::kV1 ? divide_by_sum : softmax;
    compute(blur, positions, sigma, weights);
}

}  // namespace fastload

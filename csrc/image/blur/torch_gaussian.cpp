#include "image/blur/torch_gaussian.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "image/random/torch_exp.h"

namespace fastload {
namespace {

std::uint32_t bits_of(float value) noexcept {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
}

float neighbour(float value, bool is_larger) noexcept {
    return std::nextafter(value, is_larger ? std::numeric_limits<float>::infinity() : 0.0F);
}

}  // namespace

TorchGaussian::TorchGaussian(float from, float to, std::vector<std::uint32_t> corrections) noexcept
    : first_bits_(bits_of(from)),
      count_(from <= to ? std::size_t{bits_of(to)} - first_bits_ + 1 : 0),
      corrections_(std::move(corrections)) {}

float TorchGaussian::number(std::size_t index) const noexcept {
    const auto bits = static_cast<std::uint32_t>(first_bits_ + index);
    float value = 0.0F;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
}

void TorchGaussian::fill_inputs(std::size_t first, std::size_t count, float* exponents) const noexcept {
    for (std::size_t i = 0; i < count; ++i) exponents[i] = gaussian_exponent(number(first + i));
}

bool TorchGaussian::add(std::size_t first, Span<const float> torch_values) {
    auto index = static_cast<std::uint32_t>(first);
    for (const float value : torch_values) {
        const float rounded = rounded_exp(gaussian_exponent(number(index)));
        if (value != rounded) {
            const bool is_larger = value > rounded;
            if (value != neighbour(rounded, is_larger)) return false;
            corrections_.push_back(2 * index + (is_larger ? 1U : 0U));
        }
        ++index;
    }
    return true;
}

float TorchGaussian::operator()(float q) const noexcept {
    const float rounded = rounded_exp(gaussian_exponent(q));
    const std::uint32_t index = bits_of(q) - first_bits_;
    if (index >= count_) return rounded;  // also below the range: the difference wraps
    const auto found = std::lower_bound(corrections_.begin(), corrections_.end(), 2 * index);
    if (found == corrections_.end() || *found / 2 != index) return rounded;
    return neighbour(rounded, (*found & 1U) != 0);
}

}  // namespace fastload

// torch.exp of -q^2 / 2, for GaussianBlur.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "image/random/torch_exp.h"

namespace fastload {

// -0.5 * q.pow(2) in float32.
inline float gaussian_exponent(float q) noexcept { return -0.5F * (q * q); }

// The exponents of all q in a range of float32, in increasing order.
class GaussianExponents {
  public:
    // Both are positive and finite.
    GaussianExponents(float from, float to) noexcept
        : first_bits_(bits_of(from)), count_(from <= to ? std::size_t{bits_of(to)} - first_bits_ + 1 : 0) {}

    std::size_t count() const noexcept { return count_; }
    float operator[](std::uint32_t index) const noexcept {
        const std::uint32_t bits = first_bits_ + index;
        float q = 0.0F;
        std::memcpy(&q, &bits, sizeof q);
        return gaussian_exponent(q);
    }
    // count() or more for a number outside of the range: the difference wraps below it.
    std::uint32_t index_of(float q) const noexcept { return bits_of(q) - first_bits_; }

  private:
    static std::uint32_t bits_of(float value) noexcept {
        std::uint32_t bits = 0;
        std::memcpy(&bits, &value, sizeof bits);
        return bits;
    }

    std::uint32_t first_bits_;  // positive floats have the order of their bits
    std::size_t count_;
};

class TorchGaussian : public TorchExpTable<GaussianExponents> {
  public:
    TorchGaussian(float from, float to, std::vector<std::uint32_t> corrections = {}) noexcept
        : TorchExpTable({from, to}, std::move(corrections)) {}

    // torch.exp(-0.5 * q.pow(2)); outside of the range the correctly rounded value.
    float operator()(float q) const noexcept {
        const std::uint32_t index = inputs_.index_of(q);
        return index < count() ? result(index) : rounded_exp(gaussian_exponent(q));
    }
};

}  // namespace fastload

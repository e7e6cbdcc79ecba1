// torch.exp of -q^2 / 2, for GaussianBlur.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/span.h"

namespace fastload {

// -0.5 * q.pow(2) in float32.
inline float gaussian_exponent(float q) noexcept { return -0.5F * (q * q); }

// The results of torch.exp for the exponents of all q in a range of float32, found by asking torch for each. About one
// in a hundred is a neighbour of the correctly rounded value, and this records which. Immutable once filled; shared by
// threads.
class TorchGaussian {
  public:
    // For the numbers from..to; both are positive and finite. With the corrections of an object that was filled for the
    // same numbers by the same torch, or none.
    TorchGaussian(float from, float to, std::vector<std::uint32_t> corrections = {}) noexcept;

    std::size_t count() const noexcept { return count_; }

    // The exponents of the numbers first, first + 1, ... of the range, in increasing order.
    void fill_inputs(std::size_t first, std::size_t count, float* exponents) const noexcept;

    // Adds the results of torch.exp for these. Ranges are added in increasing order. Returns false if a value is
    // neither the correctly rounded one nor a neighbour of it; the object is unusable then. May throw std::bad_alloc.
    bool add(std::size_t first, Span<const float> torch_values);

    // torch.exp(-0.5 * q.pow(2)); outside of the range the correctly rounded value.
    float operator()(float q) const noexcept;

    // Increasing: 2 * index, plus 1 if torch gives the next larger float than the correctly rounded one, else the next
    // smaller.
    const std::vector<std::uint32_t>& corrections() const noexcept { return corrections_; }

  private:
    float number(std::size_t index) const noexcept;

    std::uint32_t first_bits_;  // positive floats have the order of their bits
    std::size_t count_;
    std::vector<std::uint32_t> corrections_;
};

}  // namespace fastload

// torch.exp of the numbers that torch.empty(1).uniform_(from, to) can draw.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/span.h"

namespace fastload {

// Tensor.uniform_(from, to) of one float32 element, made of the low 24 bits of a word. Some builds of torch round once
// (a fused multiply-add), others twice.
float scaled_uniform(std::uint32_t bits24, float from, float to, bool is_fused) noexcept;

// There are 2^24 such numbers. What torch.exp makes of a float32 depends on the library that torch was built with:
// about one result in a hundred is a neighbour of the correctly rounded one. This keeps which, found by asking torch
// for all of them. Immutable once filled; shared by threads.
class TorchExp {
  public:
    static constexpr std::uint32_t kNumDraws = 1U << 24;

    TorchExp(float from, float to, bool is_fused) noexcept : from_(from), to_(to), is_fused_(is_fused) {}

    // The drawn numbers first, first + 1, ... as floats.
    void fill_inputs(std::uint32_t first, std::size_t count, float* inputs) const noexcept;

    // Takes what torch.exp makes of these. Ranges are added in rising order. False where a value is not the correctly
    // rounded one nor a neighbour of it; then this object is of no use. May throw std::bad_alloc.
    bool add(std::uint32_t first, Span<const float> torch_values);

    // torch.exp of the number drawn with `bits24`.
    float operator()(std::uint32_t bits24) const noexcept;

    std::size_t num_corrections() const noexcept { return corrections_.size(); }

  private:
    const float from_;
    const float to_;
    const bool is_fused_;
    std::vector<std::uint32_t> corrections_;  // rising: 2 * bits24, plus 1 where torch gives the next larger float
};

// e^x, computed in double and rounded to float.
float rounded_exp(float x) noexcept;

}  // namespace fastload

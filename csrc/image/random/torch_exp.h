// torch.exp of the numbers that torch.empty(1).uniform_(from, to) can draw.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/span.h"

namespace fastload {

// Differences between builds of torch in Tensor.uniform_(from, to).
struct UniformRule {
    bool is_fused = false;     // rounds once (a fused multiply-add), not twice
    bool excludes_to = false;  // gives `from` if the result would be rounded up to `to`
};

// Tensor.uniform_(from, to) for one float32 element, made from the low 24 bits of a word.
float scaled_uniform(std::uint32_t bits24, float from, float to, UniformRule rule) noexcept;

// There are 2^24 such numbers. The result of torch.exp for a float32 depends on the library that torch was built with:
// about one result in a hundred is a neighbour of the correctly rounded one. This records which, found by asking torch
// for all of them. Immutable once filled; shared by threads.
class TorchExp {
  public:
    static constexpr std::uint32_t kNumDraws = 1U << 24;

    TorchExp(float from, float to, UniformRule rule) noexcept : from_(from), to_(to), rule_(rule) {}

    // The drawn numbers first, first + 1, ... as floats.
    void fill_inputs(std::uint32_t first, std::size_t count, float* inputs) const noexcept;

    // Adds the results of torch.exp for these. Ranges are added in increasing order. Returns false if a value is
    // neither the correctly rounded one nor a neighbour of it; the object is unusable then. May throw std::bad_alloc.
    bool add(std::uint32_t first, Span<const float> torch_values);

    // torch.exp of the number drawn with `bits24`.
    float operator()(std::uint32_t bits24) const noexcept;

    std::size_t num_corrections() const noexcept { return corrections_.size(); }

  private:
    const float from_;
    const float to_;
    const UniformRule rule_;
    std::vector<std::uint32_t> corrections_;  // increasing: 2 * bits24, plus 1 if torch gives the next larger float
};

// e^x, computed in double and rounded to float.
float rounded_exp(float x) noexcept;

}  // namespace fastload

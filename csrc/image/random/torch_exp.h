// torch.exp of the numbers that torch.empty(1).uniform_(from, to) can draw.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
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

    // With the corrections of an object that was filled for the same numbers by the same torch, or none.
    TorchExp(float from, float to, UniformRule rule, std::vector<std::uint32_t> corrections = {}) noexcept
        : from_(from), to_(to), rule_(rule), corrections_(std::move(corrections)) {}

    static constexpr std::size_t count() noexcept { return kNumDraws; }

    // The drawn numbers first, first + 1, ... as floats.
    void fill_inputs(std::uint32_t first, std::size_t count, float* inputs) const noexcept;

    // Adds the results of torch.exp for these. Ranges are added in increasing order. Returns false if a value is
    // neither the correctly rounded one nor a neighbour of it; the object is unusable then. May throw std::bad_alloc.
    bool add(std::uint32_t first, Span<const float> torch_values);

    // torch.exp of the number drawn with `bits24`.
    float operator()(std::uint32_t bits24) const noexcept;

    // Increasing: 2 * bits24, plus 1 if torch gives the next larger float than the correctly rounded one, else the next
    // smaller.
    const std::vector<std::uint32_t>& corrections() const noexcept { return corrections_; }

  private:
    const float from_;
    const float to_;
    const UniformRule rule_;
    std::vector<std::uint32_t> corrections_;
};

// e^x, computed in double and rounded to float.
float rounded_exp(float x) noexcept;

}  // namespace fastload

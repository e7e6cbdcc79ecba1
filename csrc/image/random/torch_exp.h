// Results of torch.exp, which depend on the library that torch was built with.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "base/span.h"

namespace fastload {

// e^x, computed in double and rounded to float.
inline float rounded_exp(float x) noexcept { return static_cast<float>(std::exp(static_cast<double>(x))); }

// torch.exp of a list of numbers, found by asking torch for each of them: about one result in a hundred is a neighbour
// of the correctly rounded one, and this records which. `Inputs` has count() and operator[]. Immutable once filled;
// shared by threads.
template <typename Inputs>
class TorchExpTable {
  public:
    // With the corrections of an object that was filled for the same inputs by the same torch, or none.
    TorchExpTable(const Inputs& inputs, std::vector<std::uint32_t> corrections) noexcept
        : inputs_(inputs), corrections_(std::move(corrections)) {}

    std::size_t count() const noexcept { return inputs_.count(); }

    // The inputs first, first + 1, ...
    void fill_inputs(std::size_t first, std::size_t count, float* inputs) const noexcept {
        for (std::size_t i = 0; i < count; ++i) inputs[i] = inputs_[static_cast<std::uint32_t>(first + i)];
    }

    // Adds the results of torch.exp for these. Ranges are added in increasing order. Returns false if a value is
    // neither the correctly rounded one nor a neighbour of it; the object is unusable then. May throw std::bad_alloc.
    bool add(std::size_t first, Span<const float> torch_values) {
        auto index = static_cast<std::uint32_t>(first);
        for (const float value : torch_values) {
            const float rounded = rounded_exp(inputs_[index]);
            if (value != rounded) {
                const bool is_larger = value > rounded;
                if (value != neighbour(rounded, is_larger)) return false;
                corrections_.push_back(2 * index + (is_larger ? 1U : 0U));
            }
            ++index;
        }
        return true;
    }

    // Increasing: 2 * index, plus 1 if torch gives the next larger float than the correctly rounded one, else the next
    // smaller.
    const std::vector<std::uint32_t>& corrections() const noexcept { return corrections_; }

  protected:
    // torch.exp of input `index`.
    float result(std::uint32_t index) const noexcept {
        const float rounded = rounded_exp(inputs_[index]);
        const auto found = std::lower_bound(corrections_.begin(), corrections_.end(), 2 * index);
        if (found == corrections_.end() || *found / 2 != index) return rounded;
        return neighbour(rounded, (*found & 1U) != 0);
    }

    const Inputs inputs_;

  private:
    static float neighbour(float value, bool is_larger) noexcept {
        return std::nextafter(value, is_larger ? std::numeric_limits<float>::infinity() : 0.0F);
    }

    std::vector<std::uint32_t> corrections_;
};

// Differences between builds of torch in Tensor.uniform_(from, to).
struct UniformRule {
    bool is_fused = false;     // rounds once (a fused multiply-add), not twice
    bool excludes_to = false;  // gives `from` if the result would be rounded up to `to`
};

// Tensor.uniform_(from, to) for one float32 element, made from the low 24 bits of a word.
inline float scaled_uniform(std::uint32_t bits24, float from, float to, UniformRule rule) noexcept {
    const float unit = static_cast<float>(bits24) * 0x1p-24F;
    const float scaled = rule.is_fused ? std::fma(unit, to - from, from) : unit * (to - from) + from;
    return rule.excludes_to && scaled == to ? from : scaled;
}

// The numbers that torch.empty(1).uniform_(from, to) can draw, by their 24 bits.
struct UniformNumbers {
    static constexpr std::size_t count() noexcept { return std::size_t{1} << 24; }
    float operator[](std::uint32_t bits24) const noexcept { return scaled_uniform(bits24, from, to, rule); }

    float from;
    float to;
    UniformRule rule;
};

class TorchExp : public TorchExpTable<UniformNumbers> {
  public:
    TorchExp(float from, float to, UniformRule rule, std::vector<std::uint32_t> corrections = {}) noexcept
        : TorchExpTable({from, to, rule}, std::move(corrections)) {}

    // torch.exp of the number drawn with `bits24`.
    float operator()(std::uint32_t bits24) const noexcept { return result(bits24); }
};

}  // namespace fastload

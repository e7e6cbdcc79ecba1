#include "image/random/torch_exp.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fastload {

float scaled_uniform(std::uint32_t bits24, float from, float to, UniformRule rule) noexcept {
    const float unit = static_cast<float>(bits24) * 0x1p-24F;
    const float scaled = rule.is_fused ? std::fma(unit, to - from, from) : unit * (to - from) + from;
    return rule.excludes_to && scaled == to ? from : scaled;
}

float rounded_exp(float x) noexcept { return static_cast<float>(std::exp(static_cast<double>(x))); }

void TorchExp::fill_inputs(std::uint32_t first, std::size_t count, float* inputs) const noexcept {
    for (std::size_t i = 0; i < count; ++i) {
        inputs[i] = scaled_uniform(first + static_cast<std::uint32_t>(i), from_, to_, rule_);
    }
}

bool TorchExp::add(std::uint32_t first, Span<const float> torch_values) {
    std::uint32_t bits24 = first;
    for (const float value : torch_values) {
        const float rounded = rounded_exp(scaled_uniform(bits24, from_, to_, rule_));
        if (value != rounded) {
            const bool is_larger = value > rounded;
            const float limit = is_larger ? std::numeric_limits<float>::infinity() : 0.0F;
            if (value != std::nextafter(rounded, limit)) return false;
            corrections_.push_back(2 * bits24 + (is_larger ? 1U : 0U));
        }
        ++bits24;
    }
    return true;
}

float TorchExp::operator()(std::uint32_t bits24) const noexcept {
    const float rounded = rounded_exp(scaled_uniform(bits24, from_, to_, rule_));
    const auto found = std::lower_bound(corrections_.begin(), corrections_.end(), 2 * bits24);
    if (found == corrections_.end() || *found / 2 != bits24) return rounded;
    return std::nextafter(rounded, (*found & 1U) != 0 ? std::numeric_limits<float>::infinity() : 0.0F);
}

}  // namespace fastload

#include "image/random/draw_source.h"

#include <utility>

namespace fastload {

float DrawSource::uniform_exp(float from, float to, const TorchExp* torch_exp) noexcept {
    const std::uint32_t bits24 = next_bits24();
    return torch_exp != nullptr ? (*torch_exp)(bits24) : rounded_exp(scaled_uniform(bits24, from, to, rule_));
}

void DrawSource::permutation(std::uint8_t* out, std::size_t n) noexcept {
    for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<std::uint8_t>(i);
    for (std::size_t i = 0; i + 1 < n; ++i) {
        std::swap(out[i], out[i + below(static_cast<std::uint32_t>(n - i))]);
    }
}

}  // namespace fastload

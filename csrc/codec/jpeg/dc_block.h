// The samples of a block without AC coefficients.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace fastload::jpeg {

// Writes the 64 samples of a block whose only coefficient is the DC one: the inverse DCT's short first pass and its
// second one come down to this.
inline void fill_from_dc(std::int16_t dc, std::uint16_t quantization, std::uint8_t* output) noexcept {
    const auto product =
        static_cast<std::int16_t>(static_cast<std::uint32_t>(static_cast<std::uint16_t>(dc)) * quantization);
    const auto scaled = static_cast<std::int16_t>(product * 4);
    const int sample = std::clamp((scaled + 16) >> 5, -128, 127) + 128;
    std::memset(output, sample, 64);
}

}  // namespace fastload::jpeg

// The samples of a block without AC coefficients.
#pragma once

#include <cstdint>
#include <cstring>

namespace fastload {

// The value of all samples of a block whose only coefficient is the DC one: the inverse DCT's short first pass and its
// second pass come down to this. Inlined without a template, so that it can be used in a target region.
inline __attribute__((always_inline)) std::uint8_t dc_sample(std::int16_t dc, std::uint16_t quantization) noexcept {
    const auto product =
        static_cast<std::int16_t>(static_cast<std::uint32_t>(static_cast<std::uint16_t>(dc)) * quantization);
    const auto scaled = static_cast<std::int16_t>(product * 4);
    const int sample = ((scaled + 16) >> 5) + 128;
    return static_cast<std::uint8_t>(sample < 0 ? 0 : (sample > 255 ? 255 : sample));
}

// Writes the 64 samples of such a block.
inline void fill_from_dc(std::int16_t dc, std::uint16_t quantization, std::uint8_t* output) noexcept {
    std::memset(output, dc_sample(dc, quantization), 64);
}

}  // namespace fastload

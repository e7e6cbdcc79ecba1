// Dequantisation and inverse DCT of one block, equal to the "islow" transform of libjpeg-turbo on x86.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/zigzag.h"

namespace fastload {

// Makes 64 coefficients zero, in pieces of 16 bytes: GCC turns one large memset into a string instruction, which takes
// longer to start than these stores. Inlined without a template, so that it can be used in a target region.
inline __attribute__((always_inline)) void clear_block(std::int16_t* coefficients) noexcept {
#pragma GCC unroll 8
    for (int k = 0; k < 64; k += 8) std::memset(coefficients + k, 0, 8 * sizeof(std::int16_t));
}

// coefficients[64] and quantization[64] are in zigzag order. The coefficients are zero afterwards, as the decoder needs
// them for the next block: here they are already in registers. strip_block receives 64 samples as a part of a strip:
// byte 8 * column + row (see Note [column strips]). All three are 64-byte aligned.
//
// The arithmetic follows libjpeg-turbo's SIMD code, so that absurd coefficients agree as well: products with the
// quantization table wrap to 16 bits, in0 +- in4, in1 + in5 and in3 + in7 wrap to 16 bits, the first pass is shifted by
// 11 and saturated to 16 bits, the second is shifted by 18, saturated to 8 bits and moved by 128. A block whose
// coefficients outside of row 0 are all zero takes a short first pass, a left shift by 2 that wraps to 16 bits.
using InverseDctFunction = void(std::int16_t* coefficients, const std::uint16_t* quantization,
                                std::uint8_t* strip_block) noexcept;

InverseDctFunction inverse_dct_scalar, inverse_dct_avx2, inverse_dct_avx512;

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

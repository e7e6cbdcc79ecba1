// Quantised coefficients in a form that expands much faster than Huffman codes, for records that are read many times.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fastload {

// Note [packed blocks]
// A block is packed as these parts, one behind the other, blocks without a gap between them:
//   2 bytes: little endian; bits 0..11 the DC coefficient in two's complement, bits 12..15 the class
//   0, 2, 4 or 8 bytes: the mask, little endian; bit k is set where the coefficient at zigzag position k is not zero,
//     bit 0 never
//   the nonzero coefficients of positions 1..15 in the low width, in order, then those of positions 16..63 in the high
//     width; each of the two groups begins at a byte
// A width is a nibble (two's complement; the first of two in the lower half of a byte, zero in the upper half of a last
// byte that has one alone), a byte or two bytes, little endian. Class 0 is a block without mask and values. Class
// 1 + 5 * m + w has a mask of 2 << m bytes, m = 0..2, and the pair of widths w:
//   w  low      high
//   0  nibble   nibble
//   1  byte     nibble
//   2  byte     byte
//   3  2 bytes  nibble
//   4  2 bytes  2 bytes
// A block is packed with the smallest mask and the smallest w that hold it, so it has one form only. For example DC 5,
// 1 at position 1 and -2 at position 3 are 05 10 (class 1), 0A 00 and E1; DC -1 alone is FF 0F.
//
// Any bytes are blocks, though a packer does not make all of them: a mask or a width may be larger than it must, a
// value may be zero, a nibble that fills a byte may be anything. Bit 0 of a mask that is set counts as a value of the
// low group, and the DC coefficient takes its place.

// A packer writes at most so much for a block.
constexpr std::size_t kMaxPackedBlockBytes = 2 + 8 + 15 * 2 + 48 * 2;

// What must be readable behind the end of packed blocks, and writable behind where pack_blocks() may write.
constexpr std::size_t kPackedSlackBytes = 256;

// Packs `count` blocks of 64 coefficients, zigzag order, one behind the other (64-byte aligned), to `packed`, which has
// room for count * kMaxPackedBlockBytes + kPackedSlackBytes. Returns the end of what was written, nullptr where a DC
// coefficient is outside of -2048..2047; what is behind that end, or was written before nullptr, is undefined.
using PackBlocksFunction = std::uint8_t* (*)(const std::int16_t* coefficients, std::size_t count,
                                             std::uint8_t* packed) noexcept;

// The place behind `count` packed blocks; nullptr where they would end behind `end`. Any bytes may be there; none
// behind end + kPackedSlackBytes is read.
using SkipBlocksFunction = const std::uint8_t* (*)(const std::uint8_t* packed, const std::uint8_t* end,
                                                   std::size_t count) noexcept;

// Dequantisation and inverse DCT (exactly InverseDctFunction of kernels/idct.h, absurd coefficients included) of
// `count` packed blocks into `count` consecutive strip blocks of 64 bytes. quantization[64] and the strip blocks are
// 64-byte aligned. Returns the place behind the packed blocks; nullptr where they would end behind `end` (what was
// written then is meaningless, but inside). Any bytes may be there; none behind end + kPackedSlackBytes is read.
using ReconstructBlocksFunction = const std::uint8_t* (*)(const std::uint8_t* packed, const std::uint8_t* end,
                                                          std::size_t count, const std::uint16_t* quantization,
                                                          std::uint8_t* strip_blocks) noexcept;

std::uint8_t* pack_blocks_scalar(const std::int16_t* coefficients, std::size_t count, std::uint8_t* packed) noexcept;
std::uint8_t* pack_blocks_avx2(const std::int16_t* coefficients, std::size_t count, std::uint8_t* packed) noexcept;
std::uint8_t* pack_blocks_avx512(const std::int16_t* coefficients, std::size_t count, std::uint8_t* packed) noexcept;

const std::uint8_t* skip_blocks_scalar(const std::uint8_t* packed, const std::uint8_t* end, std::size_t count) noexcept;
const std::uint8_t* skip_blocks_avx2(const std::uint8_t* packed, const std::uint8_t* end, std::size_t count) noexcept;

const std::uint8_t* reconstruct_blocks_scalar(const std::uint8_t* packed, const std::uint8_t* end, std::size_t count,
                                              const std::uint16_t* quantization, std::uint8_t* strip_blocks) noexcept;
const std::uint8_t* reconstruct_blocks_avx2(const std::uint8_t* packed, const std::uint8_t* end, std::size_t count,
                                            const std::uint16_t* quantization, std::uint8_t* strip_blocks) noexcept;
const std::uint8_t* reconstruct_blocks_avx512(const std::uint8_t* packed, const std::uint8_t* end, std::size_t count,
                                              const std::uint16_t* quantization, std::uint8_t* strip_blocks) noexcept;

}  // namespace fastload

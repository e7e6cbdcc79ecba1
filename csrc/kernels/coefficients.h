// Quantised coefficients in a form that expands much faster than Huffman codes, for records that are read many times.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fastload {

// Note [packed blocks]
// A packed block has these parts, one after the other. Blocks follow each other without a gap.
//   2 bytes: little endian; bits 0..11 the DC coefficient in two's complement, bits 12..15 the class
//   0, 2, 4 or 8 bytes: the mask, little endian; bit k is set if the coefficient at zigzag position k is not zero,
//     bit 0 never
//   the nonzero coefficients of positions 1..15 in the low width, in order, then the ones of positions 16..63 in
//     the high width; each of the two groups begins at a byte
// A width is a nibble (two's complement; the first of two in the lower half of a byte, zero in the upper half of a last
// byte that has only one), a byte or two bytes, little endian. Class 0 is a block without mask and values.
// Class 1 + 5 * m + w has a mask of 2 << m bytes, m = 0..2, and the pair of widths w:
//   w  low      high
//   0  nibble   nibble
//   1  byte     nibble
//   2  byte     byte
//   3  2 bytes  nibble
//   4  2 bytes  2 bytes
// A block is packed with the smallest mask and the smallest w that hold it, so it has only one form. For example, DC 5
// with 1 at position 1 and -2 at position 3 is 05 10 (class 1), 0A 00 and E1; DC -1 alone is FF 0F.
//
// Any bytes are valid blocks, though a packer does not write all of them: a mask or a width may be larger than needed,
// a value may be zero, a nibble that fills a byte may have any value. If bit 0 of a mask is set, it counts as a value
// of the low group, and the DC coefficient replaces that value.

// Most bytes that a packer writes for a block.
constexpr std::size_t kMaxPackedBlockBytes = 2 + 8 + 15 * 2 + 48 * 2;

// Bytes that must be readable after the end of packed blocks, and writable after the range of pack_blocks().
constexpr std::size_t kPackedSlackBytes = 256;

// Packs `count` blocks of 64 coefficients in zigzag order, 64-byte aligned and adjacent, to `packed`, which has room
// for count * kMaxPackedBlockBytes + kPackedSlackBytes. Returns the end of the packed blocks, or nullptr if a DC
// coefficient is outside of -2048..2047. The bytes after that end, and all bytes if nullptr is returned, are undefined.
using PackBlocksFunction = std::uint8_t*(const std::int16_t* coefficients, std::size_t count,
                                         std::uint8_t* packed) noexcept;

// Returns the end of `count` packed blocks, or nullptr if it would be after `end`. The bytes may have any values; none
// after end + kPackedSlackBytes is read.
using SkipBlocksFunction = const std::uint8_t*(const std::uint8_t* packed, const std::uint8_t* end,
                                               std::size_t count) noexcept;

// Dequantises `count` packed blocks and applies the inverse DCT (exactly InverseDctFunction of kernels/idct.h, absurd
// coefficients included), into `count` consecutive strip blocks of 64 bytes. quantization[64] and the strip blocks are
// 64-byte aligned. Returns the end of the packed blocks, or nullptr if it would be after `end`; the strip blocks are
// then meaningless, but nothing outside of them is written. The packed bytes may have any values; none after end +
// kPackedSlackBytes is read.
using ReconstructBlocksFunction = const std::uint8_t*(const std::uint8_t* packed, const std::uint8_t* end,
                                                      std::size_t count, const std::uint16_t* quantization,
                                                      std::uint8_t* strip_blocks) noexcept;

PackBlocksFunction pack_blocks_scalar, pack_blocks_avx2, pack_blocks_avx512;
SkipBlocksFunction skip_blocks_scalar, skip_blocks_avx2;
ReconstructBlocksFunction reconstruct_blocks_scalar, reconstruct_blocks_avx2, reconstruct_blocks_avx512;

}  // namespace fastload

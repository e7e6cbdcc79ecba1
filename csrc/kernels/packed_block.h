// The parts of a packed block, shared by all variants; see Note [packed blocks].
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/coefficients.h"

namespace fastload {

// The width of a group's values; they have 4 << width bits.
enum : std::uint8_t { kNibble = 0, kByte = 1, kTwoBytes = 2 };

struct WidthPair {
    std::uint8_t low;
    std::uint8_t high;
};

constexpr WidthPair kWidthPairs[5] = {
    {kNibble, kNibble}, {kByte, kNibble}, {kByte, kByte}, {kTwoBytes, kNibble}, {kTwoBytes, kTwoBytes},
};

// [low][high]: the first pair of widths that holds both.
constexpr std::uint8_t kSmallestPair[3][3] = {{0, 2, 4}, {1, 2, 4}, {3, 4, 4}};

struct PackedClass {
    std::uint64_t mask_bits = 0;  // the bits of the mask in the 8 bytes read
    std::uint8_t head_bytes = 2;  // bytes before the values
    std::uint8_t pair = 0;
    std::uint8_t low_width = kNibble;
    std::uint8_t high_width = kNibble;
};

struct PackedClasses {
    PackedClass of[16];

    constexpr PackedClasses() {
        for (int m = 0; m < 3; ++m) {
            for (int pair = 0; pair < 5; ++pair) {
                PackedClass& entry = of[1 + 5 * m + pair];
                entry.mask_bits = ~std::uint64_t{0} >> (64 - (16 << m));
                entry.head_bytes = static_cast<std::uint8_t>(2 + (2 << m));
                entry.pair = static_cast<std::uint8_t>(pair);
                entry.low_width = kWidthPairs[pair].low;
                entry.high_width = kWidthPairs[pair].high;
            }
        }
    }
};
constexpr PackedClasses kPackedClasses;

// The width of values, given bits that tell which are beyond a nibble, and bits that tell which are beyond a byte.
constexpr std::uint8_t width_beyond(std::uint64_t beyond_nibble, std::uint64_t beyond_byte) {
    return static_cast<std::uint8_t>((beyond_nibble != 0 ? 1 : 0) + (beyond_byte != 0 ? 1 : 0));
}

// The class of a block with this mask and these widths.
constexpr int packed_class(std::uint64_t mask, std::uint8_t low_width, std::uint8_t high_width) {
    const int m = (mask >> 32 != 0 ? 1 : 0) + (mask >> 16 != 0 ? 1 : 0);
    return mask == 0 ? 0 : 1 + 5 * m + kSmallestPair[low_width][high_width];
}

// The positions 0..15 in a mask.
constexpr std::uint64_t kLowGroup = 0xFFFF;

// Result of parse_block(). The low group begins after the head, and the high group after the low one.
struct PackedBlock {
    const PackedClass* kind;
    std::int16_t dc;
    std::uint64_t mask;
    unsigned low_count;
    const std::uint8_t* low_values;
    const std::uint8_t* high_values;
    const std::uint8_t* end;
};

inline constexpr __attribute__((always_inline)) std::size_t group_bytes(unsigned count, std::uint8_t width) {
    return ((std::size_t{count} << width) + 1) >> 1;
}

// Reads the first 10 bytes, which may have any values. Inlined, so that it can be used in a target region.
inline __attribute__((always_inline)) PackedBlock parse_block(const std::uint8_t* packed) {
    static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "head and mask are read as they lie there");
    std::uint16_t head = 0;
    std::memcpy(&head, packed, sizeof head);
    std::uint64_t mask = 0;
    std::memcpy(&mask, packed + 2, sizeof mask);
    PackedBlock block;
    block.kind = &kPackedClasses.of[head >> 12];
    block.dc = static_cast<std::int16_t>(static_cast<std::int16_t>(head << 4) >> 4);
    block.mask = mask & block.kind->mask_bits;
    block.low_count = static_cast<unsigned>(__builtin_popcountll(block.mask & kLowGroup));
    const auto high_count = static_cast<unsigned>(__builtin_popcountll(block.mask >> 16));
    block.low_values = packed + block.kind->head_bytes;
    block.high_values = block.low_values + group_bytes(block.low_count, block.kind->low_width);
    block.end = block.high_values + group_bytes(high_count, block.kind->high_width);
    return block;
}

// Writes the coefficients in the mask to their positions in zigzag order, and leaves the other positions alone.
void unpack_values(const PackedBlock& block, std::int16_t* coefficients) noexcept;

// Writes head and mask of a block with class `index`; returns the position of the values. May write 10 bytes.
inline __attribute__((always_inline)) std::uint8_t* write_head(std::int16_t dc, int index, std::uint64_t mask,
                                                               std::uint8_t* packed) {
    const auto head =
        static_cast<std::uint16_t>((static_cast<unsigned>(dc) & 0xFFF) | static_cast<unsigned>(index) << 12);
    std::memcpy(packed, &head, sizeof head);
    std::memcpy(packed + 2, &mask, sizeof mask);
    return packed + kPackedClasses.of[index].head_bytes;
}

inline __attribute__((always_inline)) bool does_dc_fit(std::int16_t dc) { return dc >= -2048 && dc <= 2047; }

}  // namespace fastload

// Finds the end of a packed block with a short chain of operations from block to block; see Note [packed blocks].
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/packed_block.h"

namespace fastload {

// The size of a block, as three looked-up parts that depend only on its class: the values are counted for each possible
// size of the mask while the class is read. Rows have 32 and 64 bytes, powers of two with room for all counts.
struct PackedBlockSizes {
    std::uint8_t head_and_low[16][32] = {};  // [class][values of positions 0..15]
    std::uint8_t high_of_4[16][32] = {};     // [class][values of positions 16..31], for a mask of 4 bytes
    std::uint8_t high_of_8[16][64] = {};     // [class][values of positions 16..63], for a mask of 8 bytes

    constexpr PackedBlockSizes() {
        for (int index = 0; index < 16; ++index) {
            const PackedClass& kind = kPackedClasses.of[index];
            for (unsigned count = 0; count <= 48; ++count) {
                const auto low = kind.mask_bits == 0 ? 0 : group_bytes(count, kind.low_width);
                const auto high = static_cast<std::uint8_t>(group_bytes(count, kind.high_width));
                if (count <= 16) head_and_low[index][count] = static_cast<std::uint8_t>(kind.head_bytes + low);
                if (count <= 16 && kind.head_bytes == 6) high_of_4[index][count] = high;
                if (kind.head_bytes == 10) high_of_8[index][count] = high;
            }
        }
    }
};
constexpr PackedBlockSizes kPackedBlockSizes;

// Returns the end of a block. Reads 10 bytes, which may have any values.
inline __attribute__((always_inline)) const std::uint8_t* packed_block_end(const std::uint8_t* packed) {
    std::uint64_t mask = 0;
    std::memcpy(&mask, packed + 2, sizeof mask);
    const auto low_count = static_cast<std::size_t>(__builtin_popcountll(mask & kLowGroup));
    const auto high_count_of_4 = static_cast<std::size_t>(__builtin_popcountll(mask >> 16 & 0xFFFF));
    const auto high_count_of_8 = static_cast<std::size_t>(__builtin_popcountll(mask >> 16));
    // The class times 16, so that the address scale finds a row.
    const std::size_t row = packed[1] & 0xF0U;
    const std::uint8_t* const low = &kPackedBlockSizes.head_and_low[0][0] + low_count;
    const std::uint8_t* const high4 = &kPackedBlockSizes.high_of_4[0][0] + high_count_of_4;
    const std::uint8_t* const high8 = &kPackedBlockSizes.high_of_8[0][0] + high_count_of_8;
    return packed + std::size_t{low[2 * row]} + (std::size_t{high4[2 * row]} + std::size_t{high8[4 * row]});
}

}  // namespace fastload

// Between column strips and rows: the 8x8 byte transpose in plain integer arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace fastload {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the packed transposes read byte 0 as the lowest one");

// Byte j of words[i] becomes byte i of words[j]. Swaps quarters of the square, then quarters of quarters, then bytes.
inline void transpose_8x8(std::uint64_t* words) noexcept {
    const auto swap_blocks = [words](int distance, int shift, std::uint64_t mask) {
        for (int i = 0; i < 8; ++i) {
            if ((i & distance) != 0) continue;
            const std::uint64_t difference = ((words[i] >> shift) ^ words[i + distance]) & mask;
            words[i] ^= difference << shift;
            words[i + distance] ^= difference;
        }
    };
    swap_blocks(4, 32, 0x00000000FFFFFFFFU);
    swap_blocks(2, 16, 0x0000FFFF0000FFFFU);
    swap_blocks(1, 8, 0x00FF00FF00FF00FFU);
}

// Eight columns of a strip (64 bytes at `strip`) to eight rows of eight bytes, `row_stride_bytes` apart; or back, since
// a transpose is its own inverse.
inline void transpose_columns_to_rows(const std::uint8_t* strip, std::uint8_t* rows,
                                      std::size_t row_stride_bytes) noexcept {
    std::uint64_t words[8];
    std::memcpy(words, strip, sizeof words);
    transpose_8x8(words);
    for (std::size_t r = 0; r < 8; ++r) std::memcpy(rows + r * row_stride_bytes, &words[r], 8);
}

inline void transpose_rows_to_columns(const std::uint8_t* rows, std::size_t row_stride_bytes,
                                      std::uint8_t* strip) noexcept {
    std::uint64_t words[8];
    for (std::size_t r = 0; r < 8; ++r) std::memcpy(&words[r], rows + r * row_stride_bytes, 8);
    transpose_8x8(words);
    std::memcpy(strip, words, sizeof words);
}

// Turns `width` columns of a strip into eight rows, in blocks of eight bytes. No column after the last one is read.
inline void strip_to_rows(const std::uint8_t* strip, std::size_t width, std::uint8_t* rows,
                          std::size_t row_stride_bytes) noexcept {
    std::size_t x = 0;
    for (; x + 8 <= width; x += 8) transpose_columns_to_rows(strip + 8 * x, rows + x, row_stride_bytes);
    if (x == width) return;
    std::uint8_t last[64] = {};
    std::memcpy(last, strip + 8 * x, 8 * (width - x));
    transpose_columns_to_rows(last, rows + x, row_stride_bytes);
}

}  // namespace fastload

// Between column strips and rows, 32 columns at a time. Only for files that are compiled for the same instructions.
#pragma once

#include "kernels/target_region.h"

#if FASTLOAD_HAS_X86_KERNELS

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/image_view.h"

FASTLOAD_BEGIN_TARGET(FASTLOAD_AVX2_FEATURES)
namespace fastload {
namespace {

constexpr std::size_t kTransposedColumns = 32;

// In each 128-bit lane, word j of words[i] becomes word i of words[j].
inline void transpose_words(__m256i (&words)[8]) noexcept {
    __m256i pairs[8];
    for (int i = 0; i < 4; ++i) {
        pairs[2 * i] = _mm256_unpacklo_epi16(words[2 * i], words[2 * i + 1]);
        pairs[2 * i + 1] = _mm256_unpackhi_epi16(words[2 * i], words[2 * i + 1]);
    }
    __m256i fours[8];
    for (int i = 0; i < 2; ++i) {
        for (int half = 0; half < 2; ++half) {
            fours[4 * i + 2 * half] = _mm256_unpacklo_epi32(pairs[4 * i + half], pairs[4 * i + half + 2]);
            fours[4 * i + 2 * half + 1] = _mm256_unpackhi_epi32(pairs[4 * i + half], pairs[4 * i + half + 2]);
        }
    }
    for (int i = 0; i < 4; ++i) {
        words[2 * i] = _mm256_unpacklo_epi64(fours[i], fours[i + 4]);
        words[2 * i + 1] = _mm256_unpackhi_epi64(fours[i], fours[i + 4]);
    }
}

// 32 columns of a strip (256 bytes) to 32 bytes of eight rows.
inline void columns_to_rows(const std::uint8_t* strip, std::uint8_t* rows, std::size_t row_stride_bytes) noexcept {
    const __m256i by_row = _mm256_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15,  //
                                            0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
    __m256i words[8];  // columns 2i and 2i + 1, and the same 16 further on; then the two columns of each row
    for (int i = 0; i < 8; ++i) {
        const auto* left = reinterpret_cast<const __m128i*>(strip + 16 * i);
        const __m256i columns =
            _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(left)), _mm_loadu_si128(left + 8), 1);
        words[i] = _mm256_shuffle_epi8(columns, by_row);
    }
    transpose_words(words);
    for (std::size_t r = 0; r < kStripRows; ++r) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(rows + r * row_stride_bytes), words[r]);
    }
}

// The other way round.
inline void rows_to_columns(const std::uint8_t* rows, std::size_t row_stride_bytes, std::uint8_t* strip) noexcept {
    const __m256i by_column = _mm256_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15,  //
                                               0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
    __m256i words[8];
    for (std::size_t r = 0; r < kStripRows; ++r) {
        words[r] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows + r * row_stride_bytes));
    }
    transpose_words(words);
    for (int i = 0; i < 8; ++i) {
        const __m256i columns = _mm256_shuffle_epi8(words[i], by_column);
        auto* left = reinterpret_cast<__m128i*>(strip + 16 * i);
        _mm_storeu_si128(left, _mm256_castsi256_si128(columns));
        _mm_storeu_si128(left + 8, _mm256_extracti128_si256(columns, 1));
    }
}

// Turns `width` columns of a strip into eight rows, in blocks of 32 bytes. The bytes after the last column receive
// arbitrary values, but no column after it is read.
inline void strip_to_padded_rows(const std::uint8_t* strip, std::size_t width, std::uint8_t* rows,
                                 std::size_t row_stride_bytes) noexcept {
    std::size_t x = 0;
    for (; x + kTransposedColumns <= width; x += kTransposedColumns) {
        columns_to_rows(strip + kStripRows * x, rows + x, row_stride_bytes);
    }
    if (x == width) return;
    std::uint8_t last[kStripRows * kTransposedColumns] = {};
    std::memcpy(last, strip + kStripRows * x, kStripRows * (width - x));
    columns_to_rows(last, rows + x, row_stride_bytes);
}

}  // namespace
}  // namespace fastload
FASTLOAD_END_TARGET

#endif

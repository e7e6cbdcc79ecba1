#include "kernels/float_rows_avx2.h"
#include "kernels/resize_frame.h"
#include "kernels/target_region.h"
#include "kernels/transpose_avx2.h"

#if FASTLOAD_HAS_X86_KERNELS

#include <immintrin.h>

FASTLOAD_BEGIN_TARGET(FASTLOAD_AVX2_FEATURES)
namespace fastload {
namespace {

// Note [coefficients as halves]
// pmaddwd multiplies two pairs of words and adds the products. A coefficient is 65536 * high + low with a signed low
// half, so two taps are two such products, and the sum is (high sum << 16) + low sum. With many taps the sums of the
// low halves may wrap; the result does not, and arithmetic is modulo 2^32. Two taps are a pair: 8 bytes, the two low
// halves and the two high ones.

constexpr std::int32_t kRoundingHalf = 1 << (kTapPrecisionBits - 1);
constexpr std::size_t kColumns = 32;  // columns that the vertical filter makes together

struct Pairs {
    static constexpr std::size_t kTaps = 2;
    static constexpr std::size_t kBytes = 8;
    static constexpr std::size_t kOverrun = 32;
};
using Taps = PackedTaps<Pairs>;

void pack_taps(const AxisTaps& taps, std::int32_t outputs, std::int32_t length, Taps* packed) noexcept {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i low_half = _mm256_set1_epi32(0x8000);
    const __m256i by_half = _mm256_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15,  //
                                             0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15);
    packed->pack(
        taps, outputs, length,
        [&](const std::int32_t* coefficients, std::int32_t shift, std::int32_t count, std::uint8_t* units) noexcept {
            const __m256i last_tap = _mm256_set1_epi32(count - 1);
            for (std::int32_t p = 0; p < packed->unit_count; p += 4) {
                const std::int32_t offset = 2 * p - shift;
                const __m256i tap = _mm256_add_epi32(lane, _mm256_set1_epi32(offset));
                // Either is negative.
                const __m256i is_outside = _mm256_or_si256(tap, _mm256_sub_epi32(last_tap, tap));
                const __m256i is_tap = _mm256_cmpgt_epi32(is_outside, _mm256_set1_epi32(-1));
                const __m256i values = _mm256_maskload_epi32(coefficients + offset, is_tap);
                const __m256i halves = _mm256_blend_epi16(values, _mm256_add_epi32(values, low_half), 0xAA);
                _mm256_storeu_si256(reinterpret_cast<__m256i*>(units + static_cast<std::size_t>(p) * Pairs::kBytes),
                                    _mm256_shuffle_epi8(halves, by_half));
            }
        });
}

inline __m256i broadcast(const std::uint8_t* bytes) noexcept {
    std::int32_t word = 0;
    __builtin_memcpy(&word, bytes, 4);
    return _mm256_set1_epi32(word);
}

// Sums of `kVectors` vectors of results over pairs of taps. `pixels(p, words)` returns the two pixels of pair p for
// every result. kPairs 0: `pair_count` pairs.
template <int kPairs, int kVectors, typename Pixels>
inline void filter(const std::uint8_t* pairs, std::int32_t pair_count, Pixels pixels,
                   __m256i (&sums)[kVectors]) noexcept {
    __m256i high[kVectors];
    for (int v = 0; v < kVectors; ++v) {
        high[v] = _mm256_setzero_si256();
        sums[v] = _mm256_set1_epi32(kRoundingHalf);
    }
    for (std::int32_t p = 0; p < (kPairs == 0 ? pair_count : kPairs); ++p, pairs += Pairs::kBytes) {
        __m256i words[kVectors];
        pixels(p, words);
        const __m256i low_halves = broadcast(pairs);
        const __m256i high_halves = broadcast(pairs + 4);
        for (int v = 0; v < kVectors; ++v) {
            sums[v] = _mm256_add_epi32(sums[v], _mm256_madd_epi16(words[v], low_halves));
            high[v] = _mm256_add_epi32(high[v], _mm256_madd_epi16(words[v], high_halves));
        }
    }
    for (int v = 0; v < kVectors; ++v) {
        sums[v] = _mm256_srai_epi32(_mm256_add_epi32(_mm256_slli_epi32(high[v], 16), sums[v]), kTapPrecisionBits);
    }
}

// Clips to bytes; in each 128-bit lane four numbers of a, then of b, c, d.
inline __m256i clip_to_bytes(__m256i a, __m256i b, __m256i c, __m256i d) noexcept {
    return _mm256_packus_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
}

// Writes 8 rows x 16 columns: in blocks[j], lane k holds rows 4k to 4k + 3 of column 4j, then of column 4j + 1 and so
// on.
inline void write_rows(const __m256i (&blocks)[4], const StripRows& output, std::size_t x) noexcept {
    const __m256i by_row = _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15,  //
                                            0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m256i turned[4];  // lane k: four columns of row 4k, then of row 4k + 1 and so on
    for (int j = 0; j < 4; ++j) turned[j] = _mm256_shuffle_epi8(blocks[j], by_row);
    const __m256i a = _mm256_unpacklo_epi32(turned[0], turned[1]);
    const __m256i b = _mm256_unpacklo_epi32(turned[2], turned[3]);
    const __m256i c = _mm256_unpackhi_epi32(turned[0], turned[1]);
    const __m256i d = _mm256_unpackhi_epi32(turned[2], turned[3]);
    const __m256i rows[4] = {_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b), _mm256_unpacklo_epi64(c, d),
                             _mm256_unpackhi_epi64(c, d)};
    for (int r = 0; r < 4; ++r) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(output.rows[r] + x), _mm256_castsi256_si128(rows[r]));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(output.rows[r + 4] + x), _mm256_extracti128_si256(rows[r], 1));
    }
}

// Filters a strip, from its first column on, horizontally.
template <int kPairs>
void filter_strip(const std::uint8_t* strip, const Taps& taps, std::size_t width, const StripRows& output) noexcept {
    // Columns 2p and 2p + 1 as words, rows 0 to 3 in the lower lane and 4 to 7 in the upper one.
    const __m256i by_row = _mm256_setr_epi8(0, -1, 8, -1, 1, -1, 9, -1, 2, -1, 10, -1, 3, -1, 11, -1,  //
                                            4, -1, 12, -1, 5, -1, 13, -1, 6, -1, 14, -1, 7, -1, 15, -1);
    const std::uint8_t* pairs = taps.units;
    for (std::size_t x = 0; x < width; x += kBlockOutputs) {
        __m256i blocks[4];
        for (std::size_t j = 0; j < 4; ++j) {
            __m256i sums[4][1];
            for (std::size_t i = 0; i < 4; ++i) {
                const std::uint8_t* columns = strip + kStripRows * static_cast<std::size_t>(taps.first[x + 4 * j + i]);
                filter<kPairs>(
                    pairs, taps.unit_count,
                    [&](std::int32_t p, __m256i(&words)[1]) noexcept {
                        const auto* pair = reinterpret_cast<const __m128i*>(columns) + p;
                        words[0] = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(pair)), by_row);
                    },
                    sums[i]);
                pairs += taps.output_bytes();
            }
            blocks[j] = clip_to_bytes(sums[0][0], sums[1][0], sums[2][0], sums[3][0]);
        }
        write_rows(blocks, output, x);
    }
}

// Makes one output row, 32 columns at a time. `rows` is the first row it reads.
template <int kPairs>
void filter_row(const std::uint8_t* rows, std::size_t row_stride_bytes, const std::uint8_t* pairs,
                std::int32_t pair_count, std::size_t width, std::uint8_t* output) noexcept {
    const __m256i zero = _mm256_setzero_si256();
    for (std::size_t x = 0; x < width; x += kColumns) {
        __m256i sums[4];
        filter<kPairs>(
            pairs, pair_count,
            [&](std::int32_t p, __m256i(&words)[4]) noexcept {
                const std::uint8_t* upper = rows + 2 * static_cast<std::size_t>(p) * row_stride_bytes + x;
                const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(upper));
                const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(upper + row_stride_bytes));
                const __m256i low = _mm256_unpacklo_epi8(a, b);
                const __m256i high = _mm256_unpackhi_epi8(a, b);
                words[0] = _mm256_unpacklo_epi8(low, zero);
                words[1] = _mm256_unpackhi_epi8(low, zero);
                words[2] = _mm256_unpacklo_epi8(high, zero);
                words[3] = _mm256_unpackhi_epi8(high, zero);
            },
            sums);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(output + x), clip_to_bytes(sums[0], sums[1], sums[2], sums[3]));
    }
}

// The number of pairs that a filter is unrolled for; 0 is the filter for any number.
constexpr std::int32_t unrolled(std::int32_t pair_count) noexcept { return pair_count <= 4 ? pair_count : 0; }

void filter_strip(const std::uint8_t* strip, const Taps& taps, std::size_t width, const StripRows& output) noexcept {
    constexpr decltype(&filter_strip<0>) kFilters[] = {filter_strip<0>, filter_strip<1>, filter_strip<2>,
                                                       filter_strip<3>, filter_strip<4>};
    kFilters[unrolled(taps.unit_count)](strip, taps, width, output);
}

// `rows` are the rows that row y's taps weigh; rows after the last may be read to the end of a pair.
void filter_rows(const std::uint8_t* rows, std::size_t row_stride_bytes, const Taps& taps, std::size_t y,
                 std::size_t width, std::uint8_t* output) noexcept {
    constexpr decltype(&filter_row<0>) kFilters[] = {filter_row<0>, filter_row<1>, filter_row<2>, filter_row<3>,
                                                     filter_row<4>};
    kFilters[unrolled(taps.unit_count)](rows, row_stride_bytes, taps.units + y * taps.output_bytes(), taps.unit_count,
                                        width, output);
}

// All that lies in the scratch memory, and the passes over it: see resize_frame.h.
struct Workspace : RowsWorkspace<Taps> {
    using RowsWorkspace::RowsWorkspace;

    void copy_to_middle(const std::uint8_t* from, std::size_t index, std::size_t width) const noexcept {
        strip_to_padded_rows(from, width, middle_row(kStripRows * index), middle_width);
    }

    void filter_row(std::ptrdiff_t first_row, std::size_t y, std::size_t width, std::uint8_t* output) const noexcept {
        filter_rows(rows_of(y, first_row), middle_width, vertical, y, width, output);
    }

    void filter_to_strips(std::ptrdiff_t first_row, std::size_t y, std::size_t width) const noexcept {
        for (std::size_t r = 0; r < kStripRows; ++r) {
            filter_row(first_row, y + r, width, eight_rows + r * middle_width);
        }
        for (std::size_t x = 0; x < width; x += kTransposedColumns) {
            rows_to_columns(eight_rows + x, middle_width, strips[0] + kStripRows * x);
        }
    }
};

}  // namespace

bool resize_scratch_bytes_avx2(ImageSize source, const ResizeJob& job, std::size_t* scratch_bytes) noexcept {
    return scratch_bytes_of<Workspace>(source, job, scratch_bytes);
}

void resize_avx2(const StripImageView& source, const ResizeJob& job, std::uint8_t* scratch,
                 const PlanarImageView& destination) noexcept {
    resize_planes(source, job, prepare_workspace<Workspace>(source, job, scratch), PlainRows{destination});
}

bool resize_convert_avx2(const StripImageView& source, const ResizeJob& job, std::uint8_t* scratch,
                         const ConvertJob& convert, void* destination) noexcept {
    if (!are_float_planes(convert) || !are_rows_whole_lines(convert, job.width, destination)) return false;
    resize_to_floats<Workspace, ChannelWriter>(source, job, scratch, convert, destination);
    _mm_sfence();
    return true;
}

}  // namespace fastload
FASTLOAD_END_TARGET

#endif

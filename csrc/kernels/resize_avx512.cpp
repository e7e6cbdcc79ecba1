#include "kernels/float_rows_avx512.h"
#include "kernels/resize_frame.h"
#include "kernels/target_region.h"

#if FASTLOAD_HAS_X86_KERNELS

#include <immintrin.h>

FASTLOAD_BEGIN_TARGET(FASTLOAD_AVX512_FEATURES)
namespace fastload {
namespace {

// Note [coefficients as digits]
// vpdpbusd multiplies four unsigned by four signed bytes and adds up the products. A coefficient is written with three
// signed base 256 digits, d0 + 256 d1 + 65536 d2, so four taps are three such products; the sum is ((s2 << 8) + s1 <<
// 8) + s0, with the rounding half, 32 << 16, in s2 from the start. Digits are in -128..127 and coefficients in
// -0x808080..0x7F7F7F, as AxisTaps promises: weights of an output add up to 1 and their absolute values to less than 2,
// so none is over 1.5 * 2^22. Intermediate sums may wrap; the result does not, and arithmetic is modulo 2^32. Four taps
// are a quad: 16 bytes, d0 of the four, d1, d2 and four zeros.

constexpr std::int32_t kDigitBias = 0x808080;
constexpr std::int32_t kRoundingHalf = 1 << (kTapPrecisionBits - 1 - 16);  // in units of the highest digit
constexpr std::size_t kPairRows = 16;                                      // two strips
constexpr std::size_t kGroupRows = 4;  // of the intermediate layout: [group][column][4 rows]

struct Quads {
    static constexpr std::size_t kTaps = 4;
    static constexpr std::size_t kBytes = 16;
    static constexpr std::size_t kOverrun = 64;
};
using Taps = PackedTaps<Quads>;

void pack_taps(const AxisTaps& taps, std::int32_t outputs, std::int32_t length, Taps* packed) noexcept {
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i bias = _mm512_set1_epi32(kDigitBias);
    const __m512i by_digit =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    packed->pack(
        taps, outputs, length,
        [&](const std::int32_t* coefficients, std::int32_t shift, std::int32_t count, std::uint8_t* units) noexcept {
            const __m512i limit = _mm512_set1_epi32(count);
            for (std::int32_t q = 0; q < packed->unit_count; q += 4) {
                const std::int32_t offset = 4 * q - shift;
                const __m512i tap = _mm512_add_epi32(lane, _mm512_set1_epi32(offset));
                const __mmask16 is_tap = _mm512_cmplt_epu32_mask(tap, limit);
                const __m512i values = _mm512_maskz_loadu_epi32(is_tap, coefficients + offset);
                const __m512i digits = _mm512_xor_si512(_mm512_add_epi32(values, bias), bias);
                _mm512_storeu_si512(units + static_cast<std::size_t>(q) * Quads::kBytes,
                                    _mm512_shuffle_epi8(digits, by_digit));
            }
        });
}

inline __m512i digit(const std::uint8_t* quad, int index) noexcept {
    std::int32_t four = 0;
    __builtin_memcpy(&four, quad + 4 * index, 4);
    return _mm512_set1_epi32(four);
}

// Returns 16 sums over quads. `pixels(q)` returns the four pixels of quad q for each of 16 results. kQuads 0:
// `quad_count` quads.
template <int kQuads, typename Pixels>
inline __m512i filter(const std::uint8_t* digits, std::int32_t quad_count, Pixels pixels) noexcept {
    __m512i high = _mm512_set1_epi32(kRoundingHalf);
    if constexpr (kQuads == 0) {
        __m512i middle = _mm512_setzero_si512();
        __m512i low = _mm512_setzero_si512();
        for (std::int32_t q = 0; q < quad_count; ++q, digits += Quads::kBytes) {
            const __m512i four = pixels(q);
            high = _mm512_dpbusd_epi32(high, four, digit(digits, 2));
            middle = _mm512_dpbusd_epi32(middle, four, digit(digits, 1));
            low = _mm512_dpbusd_epi32(low, four, digit(digits, 0));
        }
        high = _mm512_add_epi32(_mm512_slli_epi32(high, 8), middle);
        return _mm512_srai_epi32(_mm512_add_epi32(_mm512_slli_epi32(high, 8), low), kTapPrecisionBits);
    } else {
        __m512i four[kQuads];
        for (int q = 0; q < kQuads; ++q) four[q] = pixels(q);
        for (int q = 0; q < kQuads; ++q) high = _mm512_dpbusd_epi32(high, four[q], digit(digits + 16 * q, 2));
        high = _mm512_slli_epi32(high, 8);
        for (int q = 0; q < kQuads; ++q) high = _mm512_dpbusd_epi32(high, four[q], digit(digits + 16 * q, 1));
        high = _mm512_slli_epi32(high, 8);
        for (int q = 0; q < kQuads; ++q) high = _mm512_dpbusd_epi32(high, four[q], digit(digits + 16 * q, 0));
        return _mm512_srai_epi32(high, kTapPrecisionBits);
    }
}

// Clips to bytes; in each 128-bit lane four numbers of a, then of b, c, d.
inline __m512i clip_to_bytes(__m512i a, __m512i b, __m512i c, __m512i d) noexcept {
    return _mm512_packus_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
}

inline void transpose_lanes(const __m512i (&from)[4], __m512i (&to)[4]) noexcept {
    const __m512i a = _mm512_shuffle_i32x4(from[0], from[1], 0x44);
    const __m512i b = _mm512_shuffle_i32x4(from[2], from[3], 0x44);
    const __m512i c = _mm512_shuffle_i32x4(from[0], from[1], 0xEE);
    const __m512i d = _mm512_shuffle_i32x4(from[2], from[3], 0xEE);
    to[0] = _mm512_shuffle_i32x4(a, b, 0x88);
    to[1] = _mm512_shuffle_i32x4(a, b, 0xDD);
    to[2] = _mm512_shuffle_i32x4(c, d, 0x88);
    to[3] = _mm512_shuffle_i32x4(c, d, 0xDD);
}

// Receives 16 rows x 16 columns of horizontal results: in blocks[j], lane k holds rows 4k to 4k + 3 of column 4j, then
// of column 4j + 1 and so on.
struct GroupWriter {
    std::uint8_t* groups;  // the first row's
    std::size_t group_stride_bytes;

    void write(const __m512i (&blocks)[4], std::size_t x) const noexcept {
        __m512i rows[4];
        transpose_lanes(blocks, rows);
        for (std::size_t k = 0; k < 4; ++k) {
            _mm512_store_si512(groups + k * group_stride_bytes + kGroupRows * x, rows[k]);
        }
    }
};

struct RowWriter {
    std::uint8_t* rows[kPairRows];

    void write(const __m512i (&blocks)[4], std::size_t x) const noexcept {
        const __m512i by_row =
            _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
        __m512i turned[4];  // lane k: four columns of row 4k, then of row 4k + 1 and so on
        for (int j = 0; j < 4; ++j) turned[j] = _mm512_shuffle_epi8(blocks[j], by_row);
        const __m512i a = _mm512_unpacklo_epi32(turned[0], turned[1]);
        const __m512i b = _mm512_unpacklo_epi32(turned[2], turned[3]);
        const __m512i c = _mm512_unpackhi_epi32(turned[0], turned[1]);
        const __m512i d = _mm512_unpackhi_epi32(turned[2], turned[3]);
        write_every_fourth(_mm512_unpacklo_epi64(a, b), 0, x);
        write_every_fourth(_mm512_unpackhi_epi64(a, b), 1, x);
        write_every_fourth(_mm512_unpacklo_epi64(c, d), 2, x);
        write_every_fourth(_mm512_unpackhi_epi64(c, d), 3, x);
    }

  private:
    void write_every_fourth(__m512i lanes, int row, std::size_t x) const noexcept {
        _mm_store_si128(reinterpret_cast<__m128i*>(rows[row] + x), _mm512_castsi512_si128(lanes));
        _mm_store_si128(reinterpret_cast<__m128i*>(rows[row + 4] + x), _mm512_extracti32x4_epi32(lanes, 1));
        _mm_store_si128(reinterpret_cast<__m128i*>(rows[row + 8] + x), _mm512_extracti32x4_epi32(lanes, 2));
        _mm_store_si128(reinterpret_cast<__m128i*>(rows[row + 12] + x), _mm512_extracti32x4_epi32(lanes, 3));
    }
};

// The number of quads that a filter is unrolled for; 0 is the filter for any number.
constexpr std::int32_t unrolled(std::int32_t quad_count) noexcept { return quad_count <= 3 ? quad_count : 0; }

// Filters two strips, 16 rows, each from its first column on, horizontally.
template <int kQuads, typename Writer>
void filter_strip_pair(const std::uint8_t* upper, const std::uint8_t* lower, const Taps& taps, std::size_t width,
                       const Writer& writer) noexcept {
    alignas(64) std::uint8_t gather[64];  // byte t of result r is pixel r of column t
    for (int i = 0; i < 64; ++i) gather[i] = static_cast<std::uint8_t>(i / 32 * 32 + i % 4 * 8 + i % 32 / 4);
    const __m512i by_row = _mm512_load_si512(gather);
    const std::uint8_t* digits = taps.units;
    for (std::size_t x = 0; x < width; x += kBlockOutputs) {
        __m512i blocks[4];
        for (std::size_t j = 0; j < 4; ++j) {
            __m512i sums[4];
            for (std::size_t i = 0; i < 4; ++i) {
                const std::size_t offset = kStripRows * static_cast<std::size_t>(taps.first[x + 4 * j + i]);
                sums[i] = filter<kQuads>(digits, taps.unit_count, [&](int q) noexcept {
                    const std::size_t at = offset + 32 * static_cast<std::size_t>(q);
                    const __m256i above = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(upper + at));
                    const __m256i below = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lower + at));
                    return _mm512_permutexvar_epi8(by_row, _mm512_inserti64x4(_mm512_castsi256_si512(above), below, 1));
                });
                digits += taps.output_bytes();
            }
            blocks[j] = clip_to_bytes(sums[0], sums[1], sums[2], sums[3]);
        }
        writer.write(blocks, x);
    }
}

template <typename Writer>
void filter_strip_pair(const std::uint8_t* upper, const std::uint8_t* lower, const Taps& taps, std::size_t width,
                       const Writer& writer) noexcept {
    constexpr decltype(&filter_strip_pair<0, Writer>) kFilters[] = {
        filter_strip_pair<0, Writer>, filter_strip_pair<1, Writer>, filter_strip_pair<2, Writer>,
        filter_strip_pair<3, Writer>};
    kFilters[unrolled(taps.unit_count)](upper, lower, taps, width, writer);
}

// Rows of one plane in groups of four: dword x of a group is column x.
struct Groups {
    std::uint8_t* data;
    std::size_t stride_bytes;
    std::ptrdiff_t first_row;  // the window's row that `data` starts with; negative where a strip begins above it
};

// The four-row windows that start at some row of the groups, for 16 columns at a time.
struct RowWindow {
    const std::uint8_t* group;
    std::size_t stride_bytes;
    std::int32_t shift;  // 8 times the row inside the group that it starts at

    RowWindow(const Groups& groups, std::int32_t row) noexcept : stride_bytes(groups.stride_bytes) {
        const auto index = static_cast<std::size_t>(row - groups.first_row);
        group = groups.data + index / kGroupRows * stride_bytes;
        shift = static_cast<std::int32_t>(8 * (index % kGroupRows));
    }

    __m512i load(int quad, std::size_t x) const noexcept {
        const std::uint8_t* from = group + static_cast<std::size_t>(quad) * stride_bytes + kGroupRows * x;
        return _mm512_shrdv_epi32(_mm512_load_si512(from), _mm512_load_si512(from + stride_bytes),
                                  _mm512_set1_epi32(shift));
    }
};

// Makes 16 * kVectors columns of one output row.
template <int kQuads, int kVectors>
inline void filter_row_block(const RowWindow& window, const std::uint8_t* digits, std::int32_t quad_count,
                             std::size_t x, std::uint8_t* output) noexcept {
    const __m512i by_column = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i sums[4];
    for (int v = 0; v < kVectors; ++v) {
        const std::size_t column = x + 16 * static_cast<std::size_t>(v);
        sums[v] = filter<kQuads>(digits, quad_count, [&](int q) noexcept { return window.load(q, column); });
    }
    for (int v = kVectors; v < 4; ++v) sums[v] = sums[v - kVectors];
    const __m512i bytes = clip_to_bytes(sums[0], sums[1], sums[2], sums[3]);
    // Lane k holds columns 4k to 4k + 3 of each of the four blocks.
    const __m512i columns = _mm512_permutexvar_epi32(by_column, bytes);
    if constexpr (kVectors == 4) {
        _mm512_storeu_si512(output + x, columns);
    } else {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(output + x), _mm512_castsi512_si256(columns));
    }
}

template <int kQuads>
void filter_row(const RowWindow& window, const std::uint8_t* digits, std::int32_t quad_count, std::size_t columns,
                std::uint8_t* output) noexcept {
    std::size_t x = 0;
    for (; x + 32 < columns; x += 64) filter_row_block<kQuads, 4>(window, digits, quad_count, x, output);
    if (x < columns) filter_row_block<kQuads, 2>(window, digits, quad_count, x, output);
}

void filter_windows(const Groups& groups, const Taps& taps, std::size_t y, std::size_t columns,
                    std::uint8_t* output) noexcept {
    constexpr decltype(&filter_row<0>) kFilters[] = {filter_row<0>, filter_row<1>, filter_row<2>, filter_row<3>};
    kFilters[unrolled(taps.unit_count)]({groups, taps.first[y]}, taps.units + y * taps.output_bytes(), taps.unit_count,
                                        columns, output);
}

// Four output rows of 16 columns; in lane k, four rows of column 4k, then of column 4k + 1 and so on.
template <int kQuads>
inline __m512i filter_four_rows(const RowWindow* windows, const std::uint8_t* digits, const Taps& taps,
                                std::size_t x) noexcept {
    const __m512i by_column =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    __m512i sums[4];
    for (std::size_t r = 0; r < 4; ++r) {
        sums[r] = filter<kQuads>(digits + r * taps.output_bytes(), taps.unit_count,
                                 [&](int q) noexcept { return windows[r].load(q, x); });
    }
    return _mm512_shuffle_epi8(clip_to_bytes(sums[0], sums[1], sums[2], sums[3]), by_column);
}

// Makes eight output rows from row y on, as a strip.
template <int kQuads>
void filter_rows_to_strip(const Groups& groups, const Taps& taps, std::size_t y, std::size_t columns,
                          std::uint8_t* strip) noexcept {
    const RowWindow windows[8] = {{groups, taps.first[y]},     {groups, taps.first[y + 1]}, {groups, taps.first[y + 2]},
                                  {groups, taps.first[y + 3]}, {groups, taps.first[y + 4]}, {groups, taps.first[y + 5]},
                                  {groups, taps.first[y + 6]}, {groups, taps.first[y + 7]}};
    const std::uint8_t* digits = taps.units + y * taps.output_bytes();
    const __m512i low_columns = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i high_columns = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    for (std::size_t x = 0; x < columns; x += 16) {
        const __m512i upper = filter_four_rows<kQuads>(windows, digits, taps, x);
        const __m512i lower = filter_four_rows<kQuads>(windows + 4, digits + 4 * taps.output_bytes(), taps, x);
        const __m512i a = _mm512_unpacklo_epi32(upper, lower);  // lane k: columns 4k and 4k + 1
        const __m512i b = _mm512_unpackhi_epi32(upper, lower);
        _mm512_store_si512(strip + kStripRows * x, _mm512_permutex2var_epi64(a, low_columns, b));
        _mm512_store_si512(strip + kStripRows * x + 64, _mm512_permutex2var_epi64(a, high_columns, b));
    }
}

void filter_rows_to_strip(const Groups& groups, const Taps& taps, std::size_t y, std::size_t columns,
                          std::uint8_t* strip) noexcept {
    constexpr decltype(&filter_rows_to_strip<0>) kFilters[] = {filter_rows_to_strip<0>, filter_rows_to_strip<1>,
                                                               filter_rows_to_strip<2>, filter_rows_to_strip<3>};
    kFilters[unrolled(taps.unit_count)](groups, taps, y, columns, strip);
}

// Turns a strip of `width` columns into two groups, without reading columns after the window.
void strip_to_groups(const std::uint8_t* strip, std::size_t width, std::uint8_t* upper, std::uint8_t* lower) noexcept {
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    for (std::size_t x = 0; x < width; x += 16) {
        const std::size_t left = width - x;
        const auto lanes = static_cast<unsigned>(left >= 16 ? 0xFFFF : (1 << left) - 1);
        const std::uint8_t* from = strip + kStripRows * x;
        const __m512i a = _mm512_maskz_loadu_epi64(static_cast<__mmask8>(lanes), from);
        const __m512i b = _mm512_maskz_loadu_epi64(static_cast<__mmask8>(lanes >> 8), from + 64);
        _mm512_store_si512(upper + kGroupRows * x, _mm512_permutex2var_epi32(a, even, b));
        _mm512_store_si512(lower + kGroupRows * x, _mm512_permutex2var_epi32(a, odd, b));
    }
}

// All that lies in the scratch memory, and the passes over it: see resize_frame.h.
struct Workspace : SharedWorkspace<Taps, 2> {
    using Rows = RowWriter;

    std::uint8_t* groups = nullptr;  // the rows between the passes
    std::size_t group_stride_bytes = 0;

    Workspace(ImageSize source, const ResizeJob& job, ScratchCutter* scratch) noexcept
        : SharedWorkspace(source, job, scratch), group_stride_bytes(kGroupRows * middle_width) {
        if (job.vertical == nullptr) return;
        // Strips come in pairs, and windows reach over the last row by less than a quad and the group that follows.
        const std::size_t group_count = (most_strips(source.height) + 1) * kStripRows / kGroupRows +
                                        static_cast<std::size_t>(vertical.unit_count) + 1;
        groups = scratch->take(group_count, group_stride_bytes);
    }

    void filter_strips(const std::uint8_t* const* from, std::size_t width, const Rows& output) const noexcept {
        filter_strip_pair(from[0], from[1], horizontal, width, output);
    }

    void filter_to_middle(const std::uint8_t* const* from, std::size_t index, std::size_t width) const noexcept {
        const GroupWriter writer = {groups + 2 * index * group_stride_bytes, group_stride_bytes};
        filter_strip_pair(from[0], from[1], horizontal, width, writer);
    }

    void copy_to_middle(const std::uint8_t* from, std::size_t index, std::size_t width) const noexcept {
        std::uint8_t* upper = groups + 2 * index * group_stride_bytes;
        strip_to_groups(from, width, upper, upper + group_stride_bytes);
    }

    void filter_row(std::ptrdiff_t first_row, std::size_t y, std::size_t width, std::uint8_t* output) const noexcept {
        filter_windows({groups, group_stride_bytes, first_row}, vertical, y, width, output);
    }

    void filter_to_strips(std::ptrdiff_t first_row, std::size_t y, std::size_t width) const noexcept {
        const Groups middle = {groups, group_stride_bytes, first_row};
        for (std::size_t half = 0; half < kStrips; ++half) {
            filter_rows_to_strip(middle, vertical, y + kStripRows * half, width, strips[half]);
        }
    }
};

}  // namespace

bool resize_scratch_bytes_avx512(ImageSize source, const ResizeJob& job, std::size_t* scratch_bytes) noexcept {
    return scratch_bytes_of<Workspace>(source, job, scratch_bytes);
}

void resize_avx512(const StripImageView& source, const ResizeJob& job, std::uint8_t* scratch,
                   const PlanarImageView& destination) noexcept {
    resize_planes(source, job, prepare_workspace<Workspace>(source, job, scratch), PlainRows{destination});
}

bool resize_convert_avx512(const StripImageView& source, const ResizeJob& job, std::uint8_t* scratch,
                           const ConvertJob& convert, void* destination) noexcept {
    if (!are_float_planes(convert) || !are_rows_whole_lines(convert, job.width, destination)) return false;
    resize_to_floats<Workspace, ChannelWriter>(source, job, scratch, convert, destination);
    _mm_sfence();
    return true;
}

}  // namespace fastload
FASTLOAD_END_TARGET

#endif

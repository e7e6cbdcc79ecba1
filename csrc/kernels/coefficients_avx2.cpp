#include "kernels/idct_avx2.h"
#include "kernels/packed_block.h"

#if FASTLOAD_HAS_X86_KERNELS

namespace fastload {
namespace {

// For eight positions and their bits in a mask: shuffles that move adjacent values to their positions, with zeros
// between them, and back. Shuffles, because some processors that have this table deposit bits slowly.
struct ByteShuffles {
    std::uint8_t expand[256][8] = {};
    std::uint8_t compress[256][8] = {};

    constexpr ByteShuffles() {
        for (int bits = 0; bits < 256; ++bits) {
            int count = 0;
            for (int i = 0; i < 8; ++i) {
                expand[bits][i] = 0x80;
                compress[bits][i] = 0x80;
            }
            for (int i = 0; i < 8; ++i) {
                if ((bits >> i & 1) == 0) continue;
                expand[bits][i] = static_cast<std::uint8_t>(count);
                compress[bits][count++] = static_cast<std::uint8_t>(i);
            }
        }
    }
};
constexpr ByteShuffles kByteShuffles;

// A shuffle, from byte 8 - n on, that moves eight bytes up by n, zeros below and above them.
struct MoveUp {
    std::uint8_t shuffles[24] = {};

    constexpr MoveUp() {
        for (int i = 0; i < 24; ++i) shuffles[i] = static_cast<std::uint8_t>(i < 8 || i >= 16 ? 0x80 : i - 8);
    }
};
constexpr MoveUp kMoveUp;

// Added to an `expand` shuffle of eight positions that follow `count` values; sixteen bytes for both.
struct SecondShuffle {
    alignas(16) std::uint8_t increase[9][16] = {};

    constexpr SecondShuffle() {
        for (int count = 0; count < 9; ++count) {
            for (int i = 0; i < 16; ++i) increase[count][i] = static_cast<std::uint8_t>(i < 8 ? 0 : count);
        }
    }
};
constexpr SecondShuffle kSecondShuffle;

// By pair of widths, for sixteen bytes of the low group and sixteen of the high group: all ones if a value has a byte,
// and the sign bit of a value.
struct WidthBytes {
    alignas(32) std::uint8_t is_byte[3][32] = {};
    alignas(32) std::uint8_t sign[3][32] = {};

    constexpr WidthBytes() {
        for (int pair = 0; pair < 3; ++pair) {
            for (int i = 0; i < 32; ++i) {
                const bool is_nibble = (i < 16 ? kWidthPairs[pair].low : kWidthPairs[pair].high) == kNibble;
                is_byte[pair][i] = is_nibble ? 0 : 0xFF;
                sign[pair][i] = is_nibble ? 0x08 : 0x80;
            }
        }
    }
};
constexpr WidthBytes kWidthBytes;

struct RowPair {
    int even, odd;
};

// Byte shuffles that bring the bytes of two pairs of rows, in the order of Inputs, one in each half, out of chunks of
// sixteen positions: for the registers [0 | 1], [1 | 0], [2 | 3] and [3 | 2].
struct RowBytes {
    alignas(32) std::uint8_t shuffles[4][32] = {};

    constexpr RowBytes(RowPair low, RowPair high) {
        for (int source = 0; source < 4; ++source) {
            for (int i = 0; i < 32; ++i) {
                const RowPair& rows = i < 16 ? low : high;
                const int position = kZigzagPositions.of[8 * (i % 2 == 0 ? rows.even : rows.odd) + kLanes[i % 16 / 2]];
                const int chunk = source ^ (i / 16);
                shuffles[source][i] = static_cast<std::uint8_t>(position / 16 == chunk ? position % 16 : 0x80);
            }
        }
    }
};
constexpr RowBytes kRows04And26({0, 4}, {2, 6});
constexpr RowBytes kRows17And53({1, 7}, {5, 3});

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

// Returns the end of a packed block, by a short chain of operations from block to block. Reads 10 bytes, which may have
// any values.
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

FASTLOAD_BEGIN_TARGET(FASTLOAD_AVX2_FEATURES)

inline __m128i load_8(const std::uint8_t* bytes) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes)); }
inline __m128i load_16(const std::uint8_t* bytes) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)); }

inline __m256i combine(__m128i low, __m128i high) { return _mm256_set_m128i(high, low); }

inline unsigned count_bits(std::uint64_t bits) { return static_cast<unsigned>(__builtin_popcountll(bits)); }

// Bytes to their two nibbles.
inline __m256i unpack_nibbles(__m128i bytes) {
    const __m256i words = _mm256_cvtepu8_epi16(bytes);
    return _mm256_and_si256(_mm256_or_si256(words, _mm256_slli_epi16(words, 4)), _mm256_set1_epi8(15));
}

inline __m128i increase_of_second(std::uint64_t mask) {
    return load_16(kSecondShuffle.increase[count_bits(mask & 0xFF)]);
}

inline __m128i shuffles_of(std::uint64_t mask) {
    return _mm_unpacklo_epi64(load_8(kByteShuffles.expand[mask & 0xFF]),
                              load_8(kByteShuffles.expand[mask >> 8 & 0xFF]));
}

// Bytes at their positions, from two times sixteen positions and the values that belong there.
inline __m256i place(__m256i values, std::uint64_t low_mask, std::uint64_t high_mask, __m256i sign) {
    const __m256i shuffle = _mm256_add_epi8(combine(shuffles_of(low_mask), shuffles_of(high_mask)),
                                            combine(increase_of_second(low_mask), increase_of_second(high_mask)));
    return _mm256_sub_epi8(_mm256_xor_si256(_mm256_shuffle_epi8(values, shuffle), sign), sign);
}

inline __m256i pick(const RowBytes& rows, int source, __m256i bytes) {
    return _mm256_shuffle_epi8(bytes, load(rows.shuffles[source]));
}

inline __m256i widen(__m256i bytes, int half) {
    return _mm256_cvtepi8_epi16(half == 0 ? _mm256_castsi256_si128(bytes) : _mm256_extracti128_si256(bytes, 1));
}

// The coefficients of a block of nibbles and bytes, without the DC coefficient.
inline Inputs expand(const PackedBlock& block) {
    const std::uint8_t* const low = block.low_values;
    const std::uint8_t* const high = block.high_values;
    const std::uint64_t mask = block.mask;
    // Shuffles ignore the bytes after the last value.
    alignas(32) std::uint8_t nibbles[64];
    _mm256_store_si256(reinterpret_cast<__m256i*>(nibbles), unpack_nibbles(load_16(high)));
    _mm256_store_si256(reinterpret_cast<__m256i*>(nibbles + 32), unpack_nibbles(load_16(high + 16)));
    // Looked up, because a branch would be mispredicted.
    const std::uint8_t* const sources[2] = {nibbles, high};
    const std::uint8_t* const values = sources[block.kind->high_width];

    const int pair = block.kind->pair;
    const __m256i sign = load(kWidthBytes.sign[pair]);
    const __m256i first_nibbles = unpack_nibbles(_mm_unpacklo_epi64(load_8(low), load_8(high)));
    const __m256i first_values =
        _mm256_blendv_epi8(first_nibbles, combine(load_16(low), load_16(high)), load(kWidthBytes.is_byte[pair]));
    const __m256i chunks01 = place(first_values, mask, mask >> 16, sign);
    const __m256i last_values =
        combine(load_16(values + count_bits(mask & 0xFFFF0000)), load_16(values + count_bits(mask & 0xFFFFFFFF0000)));
    const __m256i chunks23 = place(last_values, mask >> 32, mask >> 48, _mm256_permute2x128_si256(sign, sign, 0x11));
    const __m256i chunks10 = swap_halves(chunks01);
    const __m256i chunks32 = swap_halves(chunks23);
    const __m256i pairs04_26 = either(either(pick(kRows04And26, 0, chunks01), pick(kRows04And26, 1, chunks10)),
                                      either(pick(kRows04And26, 2, chunks23), pick(kRows04And26, 3, chunks32)));
    const __m256i pairs17_53 = either(either(pick(kRows17And53, 0, chunks01), pick(kRows17And53, 1, chunks10)),
                                      either(pick(kRows17And53, 2, chunks23), pick(kRows17And53, 3, chunks32)));
    return {widen(pairs04_26, 0), widen(pairs04_26, 1), widen(pairs17_53, 0), widen(pairs17_53, 1)};
}

inline void fill_samples(std::uint8_t sample, std::uint8_t* strip_block) {
    const __m256i samples = _mm256_set1_epi8(static_cast<char>(sample));
    _mm256_store_si256(reinterpret_cast<__m256i*>(strip_block), samples);
    _mm256_store_si256(reinterpret_cast<__m256i*>(strip_block + 32), samples);
}

__attribute__((noinline, cold)) bool has_row0_only(__m256i pairs04, __m256i others) {
    return _mm256_testz_si256(others, others) != 0 && _mm256_testz_si256(pairs04, _mm256_set1_epi32(-65536)) != 0;
}

inline void reconstruct(Inputs words, std::int16_t dc, const Inputs& steps, std::uint8_t* strip_block) {
    words.pairs04 = _mm256_insert_epi16(words.pairs04, dc, 0);
    Inputs products = {
        _mm256_mullo_epi16(words.pairs04, steps.pairs04), _mm256_mullo_epi16(words.pairs26, steps.pairs26),
        _mm256_mullo_epi16(words.pairs17, steps.pairs17), _mm256_mullo_epi16(words.pairs53, steps.pairs53)};
    // Row 0 may be complete; if row 4 is beyond the limit, there is more than row 0.
    if (__builtin_expect(is_any_beyond_limit(move_by_limit(products.pairs04)), 0) &&
        has_row0_only(words.pairs04, either(words.pairs26, either(words.pairs17, words.pairs53)))) {
        products.pairs04 = wrap_to_14_bits(products.pairs04);
    }
    transform_to_strip(products, strip_block);
}

// Eight words at their positions, zeros between them.
inline __m128i place_words(const std::uint8_t* values, std::uint64_t bits) {
    const __m128i places = load_8(kByteShuffles.expand[bits]);
    const __m128i first_bytes = _mm_adds_epu8(places, places);  // a byte that is nowhere stays so
    const __m128i shuffle = _mm_or_si128(_mm_unpacklo_epi8(first_bytes, first_bytes), _mm_set1_epi16(0x0100));
    return _mm_shuffle_epi8(load_16(values), shuffle);
}

inline __m256i outside_row0(__m256i words, int first) {
    return _mm256_and_si256(words, load(kOutsideOfRow0.bits + first));
}

// Sums up coefficients in zigzag order. By value, so that the caller's copy stays in registers.
__attribute__((noinline, cold)) bool has_row0_only(__m256i words0, __m256i words1, __m256i words2, __m256i words3) {
    const __m256i others = either(either(outside_row0(words0, 0), outside_row0(words1, 16)),
                                  either(outside_row0(words2, 32), outside_row0(words3, 48)));
    return _mm256_testz_si256(others, others) != 0;
}

// A block whose values all have two bytes.
inline void reconstruct_wide(const PackedBlock& block, const std::uint16_t* quantization, std::uint8_t* strip_block) {
    const std::uint8_t* values = block.low_values;
    __m256i words[4];
    for (int i = 0; i < 4; ++i) {
        const std::uint64_t bits = block.mask >> 16 * i;
        const __m128i low = place_words(values, bits & 0xFF);
        const __m128i high = place_words(values + std::size_t{2} * count_bits(bits & 0xFF), bits >> 8 & 0xFF);
        words[i] = combine(low, high);
        values += std::size_t{2} * count_bits(bits & 0xFFFF);
    }
    words[0] = _mm256_insert_epi16(words[0], block.dc, 0);
    __m256i products[4];
    const bool is_large = dequantize(words, quantization, products);
    if (__builtin_expect(is_large, 0) && has_row0_only(words[0], words[1], words[2], words[3])) {
        wrap_row0(products);
    }
    transform_to_strip(from_zigzag(products), strip_block);
}

// The sixteen words in each of two registers, as bytes.
inline __m256i pack_to_bytes(__m256i low, __m256i high) {
    return _mm256_permute4x64_epi64(_mm256_packs_epi16(low, high), 0xD8);
}

inline __m256i magnitude_bits(__m256i words) { return _mm256_xor_si256(words, _mm256_srai_epi16(words, 15)); }

inline std::uint8_t width_of(__m256i magnitudes) {
    return width_beyond(_mm256_testz_si256(magnitudes, _mm256_set1_epi16(~7)) == 0 ? 1 : 0,
                        _mm256_testz_si256(magnitudes, _mm256_set1_epi16(~127)) == 0 ? 1 : 0);
}

// A bit for each word that is not zero.
inline std::uint64_t nonzero_bits(const __m256i* quarters) {
    const __m256i zero = _mm256_setzero_si256();
    std::uint64_t zeros = 0;
    for (int i = 0; i < 2; ++i) {
        const __m256i is_zero =
            pack_to_bytes(_mm256_cmpeq_epi16(quarters[2 * i], zero), _mm256_cmpeq_epi16(quarters[2 * i + 1], zero));
        zeros |= std::uint64_t{static_cast<std::uint32_t>(_mm256_movemask_epi8(is_zero))} << 32 * i;
    }
    return ~zeros;
}

// The bytes whose bits are set in `mask`, side by side, followed by zeros.
inline __m128i compress_16(__m128i bytes, std::uint64_t mask) {
    const std::uint64_t low = mask & 0xFF;
    const std::uint64_t high = mask >> 8 & 0xFF;
    const __m128i first = _mm_move_epi64(_mm_shuffle_epi8(bytes, load_8(kByteShuffles.compress[low])));
    const __m128i second = _mm_shuffle_epi8(_mm_srli_si128(bytes, 8), load_8(kByteShuffles.compress[high]));
    return _mm_or_si128(first, _mm_shuffle_epi8(second, load_16(kMoveUp.shuffles + 8 - count_bits(low))));
}

// Values of bytes as nibbles, two a byte, in the low bytes of words.
inline __m256i pair_nibbles(__m256i bytes) {
    return _mm256_maddubs_epi16(_mm256_and_si256(bytes, _mm256_set1_epi8(15)), _mm256_set1_epi16(0x1001));
}

// Packs `count` values, which zeros follow; may write 16 bytes.
inline std::uint8_t* pack_low_group(__m128i values, unsigned count, std::uint8_t width, std::uint8_t* packed) {
    const __m256i pairs = pair_nibbles(_mm256_castsi128_si256(values));
    const __m128i nibbles = _mm_packus_epi16(_mm256_castsi256_si128(pairs), _mm_setzero_si128());
    const __m128i is_byte = _mm_set1_epi8(static_cast<char>(-width));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(packed), _mm_blendv_epi8(nibbles, values, is_byte));
    return packed + group_bytes(count, width);
}

// Writes nibbles one after the other.
struct NibbleWriter {
    std::uint8_t* next;
    unsigned is_half = 0;     // whether the first nibble of *next is taken
    std::uint64_t first = 0;  // that nibble

    // Writes the lowest `count` of sixteen nibbles, which zeros follow; may write 9 bytes.
    inline __attribute__((always_inline)) void put(std::uint64_t nibbles, unsigned count) {
        const std::uint64_t bytes = first | nibbles << 4 * is_half;
        std::memcpy(next, &bytes, sizeof bytes);
        next[sizeof bytes] = static_cast<std::uint8_t>(nibbles >> 32 >> (32 - 4 * is_half));
        count += is_half;
        next += count / 2;
        is_half = count % 2;
        first = *next;
    }
    std::uint8_t* end() const { return next + is_half; }
};

inline std::uint64_t low_half(__m128i bytes) { return static_cast<std::uint64_t>(_mm_cvtsi128_si64(bytes)); }

// Packs the bytes of positions 16..63 whose bits are set in `mask`.
inline std::uint8_t* pack_high_group(__m256i bytes01, __m256i bytes23, std::uint64_t mask, std::uint8_t width,
                                     std::uint8_t* packed) {
    const __m128i values1 = compress_16(_mm256_extracti128_si256(bytes01, 1), mask >> 16);
    const __m128i values2 = compress_16(_mm256_castsi256_si128(bytes23), mask >> 32);
    const __m128i values3 = compress_16(_mm256_extracti128_si256(bytes23, 1), mask >> 48);
    const unsigned counts[3] = {count_bits(mask & 0xFFFF0000), count_bits(mask >> 32 & 0xFFFF), count_bits(mask >> 48)};
    if (width == kByte) {
        auto* place = packed;
        _mm_storeu_si128(reinterpret_cast<__m128i*>(place), values1);
        place += counts[0];
        _mm_storeu_si128(reinterpret_cast<__m128i*>(place), values2);
        place += counts[1];
        _mm_storeu_si128(reinterpret_cast<__m128i*>(place), values3);
        return place + counts[2];
    }
    const __m256i nibbles =
        _mm256_packus_epi16(pair_nibbles(combine(values1, values2)), pair_nibbles(_mm256_castsi128_si256(values3)));
    NibbleWriter writer{packed};
    writer.put(low_half(_mm256_castsi256_si128(nibbles)), counts[0]);
    writer.put(low_half(_mm256_extracti128_si256(nibbles, 1)), counts[1]);
    writer.put(low_half(_mm_srli_si128(_mm256_castsi256_si128(nibbles), 8)), counts[2]);
    return writer.end();
}

// Packs the coefficients whose bits are set in `mask`, two bytes each.
inline std::uint8_t* pack_words(const std::int16_t* coefficients, std::uint64_t mask, std::uint8_t* packed) {
    for (; mask != 0; mask &= mask - 1, packed += 2) std::memcpy(packed, coefficients + __builtin_ctzll(mask), 2);
    return packed;
}

inline std::uint8_t* pack_block(const std::int16_t* coefficients, std::uint8_t* packed) {
    const __m256i quarters[4] = {load(coefficients), load(coefficients + 16), load(coefficients + 32),
                                 load(coefficients + 48)};
    const std::uint64_t mask = nonzero_bits(quarters) & ~std::uint64_t{1};
    const __m256i low_magnitudes = _mm256_insert_epi16(magnitude_bits(quarters[0]), 0, 0);
    const __m256i high_magnitudes =
        either(magnitude_bits(quarters[1]), either(magnitude_bits(quarters[2]), magnitude_bits(quarters[3])));
    const int index = packed_class(mask, width_of(low_magnitudes), width_of(high_magnitudes));
    const PackedClass& kind = kPackedClasses.of[index];
    packed = write_head(coefficients[0], index, mask, packed);
    const __m256i bytes01 = pack_to_bytes(quarters[0], quarters[1]);
    if (__builtin_expect(kind.low_width == kTwoBytes, 0)) {
        packed = pack_words(coefficients, mask & kLowGroup, packed);
    } else {
        const __m128i values = compress_16(_mm256_castsi256_si128(bytes01), mask);
        packed = pack_low_group(values, count_bits(mask & kLowGroup), kind.low_width, packed);
    }
    if (mask >> 16 == 0) return packed;
    if (__builtin_expect(kind.high_width == kTwoBytes, 0)) return pack_words(coefficients, mask & ~kLowGroup, packed);
    return pack_high_group(bytes01, pack_to_bytes(quarters[2], quarters[3]), mask, kind.high_width, packed);
}

}  // namespace

std::uint8_t* pack_blocks_avx2(const std::int16_t* coefficients, std::size_t count, std::uint8_t* packed) noexcept {
    for (; count != 0; --count, coefficients += 64) {
        if (!does_dc_fit(coefficients[0])) return nullptr;
        packed = pack_block(coefficients, packed);
    }
    return packed;
}

const std::uint8_t* skip_blocks_avx2(const std::uint8_t* packed, const std::uint8_t* end, std::size_t count) noexcept {
    for (; count != 0; --count) {
        packed = packed_block_end(packed);
        if (packed > end) return nullptr;
    }
    return packed;
}

const std::uint8_t* reconstruct_blocks_avx2(const std::uint8_t* packed, const std::uint8_t* end, std::size_t count,
                                            const std::uint16_t* quantization, std::uint8_t* strip_blocks) noexcept {
    alignas(64) std::int16_t coefficients[64] = {};  // the inverse DCT clears them
    const __m256i zigzag_steps[4] = {load(quantization), load(quantization + 16), load(quantization + 32),
                                     load(quantization + 48)};
    const Inputs steps = from_zigzag(zigzag_steps);
    for (; count != 0; --count, strip_blocks += 64) {
        const PackedBlock block = parse_block(packed);
        if (block.end > end) return nullptr;
        packed = block.end;
        if (block.mask == 0) {
            fill_samples(dc_sample(block.dc, quantization[0]), strip_blocks);
        } else if (__builtin_expect(block.kind->high_width == kTwoBytes, 0)) {
            reconstruct_wide(block, quantization, strip_blocks);
        } else if (__builtin_expect(block.kind->low_width == kTwoBytes, 0)) {
            unpack_values(block, coefficients);
            coefficients[0] = block.dc;
            inverse_dct_avx2(coefficients, quantization, strip_blocks);
        } else {
            reconstruct(expand(block), block.dc, steps, strip_blocks);
        }
    }
    return packed;
}

}  // namespace fastload

FASTLOAD_END_TARGET

#endif

#include "kernels/idct_avx512.h"
#include "kernels/packed_block.h"

#if FASTLOAD_HAS_X86_KERNELS

namespace fastload {
namespace {

// How the values of a block of nibbles and bytes become adjacent bytes: value i is in the byte source[i]; of eight such
// bytes, taken as one number, the eight bits from shift[i] on become byte i. A nibble becomes the high half of its
// byte.
struct alignas(64) Spread {
    std::uint8_t source[64] = {};
    std::uint8_t shift[64] = {};

    constexpr Spread() = default;
    constexpr Spread(WidthPair widths, int low_count) {
        const int low_nibbles = low_count << widths.low;
        const int high_start = (low_nibbles + 1) / 2 * 2;
        for (int i = 0; i < 64; ++i) {
            const bool is_low = i < low_count;
            const int nibble = is_low ? i << widths.low : high_start + ((i - low_count) << widths.high);
            const int to_high_half = (is_low ? widths.low : widths.high) == kNibble ? 4 : 0;
            source[i] = static_cast<std::uint8_t>(nibble / 2);
            shift[i] = static_cast<std::uint8_t>((i % 8 * 8 + nibble % 2 * 4 - to_high_half) & 63);
        }
    }
};

// By pair of widths and number of values in the low group: at most 16, because bit 0 of a mask counts.
struct Spreads {
    Spread of[3][17];

    constexpr Spreads() {
        for (int pair = 0; pair < 3; ++pair) {
            for (int low_count = 0; low_count <= 16; ++low_count) of[pair][low_count] = {kWidthPairs[pair], low_count};
        }
    }
};
constexpr Spreads kSpreads;

// By pair of widths: how far a value has to be shifted down from the high bits of a word, in kSplitOrder.
struct ValueShifts {
    Words of[3];

    constexpr ValueShifts() {
        for (int pair = 0; pair < 3; ++pair) {
            for (int i = 0; i < 32; ++i) {
                const bool is_low = i < 8;
                const int width = is_low ? kWidthPairs[pair].low : kWidthPairs[pair].high;
                of[pair].values[i] = width == kNibble ? 12 : 8;
            }
        }
    }
};
constexpr ValueShifts kValueShifts;

// The words of even or odd positions out of two registers in zigzag order.
struct SplitWords {
    Words even, odd;

    constexpr SplitWords() {
        for (int i = 0; i < 32; ++i) {
            even.values[i] = static_cast<std::int16_t>(2 * i);
            odd.values[i] = static_cast<std::int16_t>(2 * i + 1);
        }
    }
};
constexpr SplitWords kSplitWords;

FASTLOAD_BEGIN_TARGET(FASTLOAD_AVX512_FEATURES)

// Keeps the compiler from creating the constant anew for each block.
inline __m512i in_register(__m512i constant) noexcept {
    asm("" : "+v"(constant));
    return constant;
}

// Zeros to expand or compress into. If the compiler knows that they are zeros, it lets the instruction clear its
// result, and processors then wait for the previous value of the result's register, which the last block's transform
// wrote.
inline __m512i zeros() { return in_register(_mm512_setzero_si512()); }

inline __m512i load_bytes(const std::uint8_t* bytes) { return _mm512_load_si512(bytes); }
inline __m256i load_half(const std::uint8_t* bytes) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes));
}

inline BlockWords split(__m512i low, __m512i high) {
    return {_mm512_permutex2var_epi16(low, load(kSplitWords.even), high),
            _mm512_permutex2var_epi16(low, load(kSplitWords.odd), high)};
}

// The values of nibbles and bytes whose bits are set in `mask`.
inline BlockWords expand_bytes(const std::uint8_t* values, std::uint64_t mask, int pair, unsigned low_count) {
    const Spread& spread = kSpreads.of[pair][low_count];
    const __m512i sources = _mm512_permutexvar_epi8(load_bytes(spread.source), _mm512_loadu_si512(values));
    const __m512i leading = _mm512_multishift_epi64_epi8(load_bytes(spread.shift), sources);
    const __m512i placed = _mm512_mask_expand_epi8(zeros(), mask, leading);
    const __m512i shifts = load(kValueShifts.of[pair]);
    return {_mm512_srav_epi16(_mm512_slli_epi16(placed, 8), shifts), _mm512_srav_epi16(placed, shifts)};
}

inline __m256i expand_words(const std::uint8_t* values, std::uint64_t mask) {
    return _mm256_mask_expand_epi16(_mm512_castsi512_si256(zeros()), static_cast<__mmask16>(mask), load_half(values));
}

// A block whose low group has values of two bytes.
inline BlockWords expand_wide(const PackedBlock& block) noexcept {
    const __m512i low = _mm512_inserti64x4(zeros(), expand_words(block.low_values, block.mask), 0);
    if (block.kind->high_width == kNibble) {
        const BlockWords nibbles = expand_bytes(block.high_values, block.mask & ~kLowGroup, 0, 0);
        const BlockWords words = split(low, zeros());
        return {_mm512_or_si512(words.low, nibbles.low), _mm512_or_si512(words.high, nibbles.high)};
    }
    const auto count = static_cast<unsigned>(__builtin_popcountll(block.mask >> 16 & kLowGroup));
    const __m512i high_values = _mm512_loadu_si512(block.high_values + std::size_t{2} * count);
    const __m512i high = _mm512_mask_expand_epi16(zeros(), static_cast<__mmask32>(block.mask >> 32), high_values);
    return split(_mm512_inserti64x4(low, expand_words(block.high_values, block.mask >> 16), 1), high);
}

// `packed` is where the block begins.
inline BlockWords expand(const PackedBlock& block, const std::uint8_t* packed) {
    const bool is_wide = block.kind->low_width == kTwoBytes;
    BlockWords words = __builtin_expect(is_wide, 0)
                           ? expand_wide(block)
                           : expand_bytes(block.low_values, block.mask, block.kind->pair, block.low_count);
    const __m128i leading_dc = _mm_slli_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(packed)), 4);
    words.low = _mm512_mask_srai_epi16(words.low, 1, _mm512_castsi128_si512(leading_dc), 4);
    return words;
}

inline __m512i dc_samples(std::int16_t dc, std::uint16_t quantization) {
    return _mm512_set1_epi8(static_cast<char>(dc_sample(dc, quantization)));
}

inline Uniforms uniforms_in_registers() {
    const Uniforms uniforms = load_uniforms();
    return {in_register(uniforms.limit), in_register(uniforms.beyond_limit), in_register(uniforms.rounding1),
            in_register(uniforms.rounding2), in_register(uniforms.sample_centre)};
}

// A bit for each coefficient whose magnitude has bits beyond `limit`.
inline std::uint64_t bits_beyond(const BlockWords& magnitudes, __m512i limit) {
    return std::uint64_t{_mm512_cmpgt_epi16_mask(magnitudes.low, limit)} |
           std::uint64_t{_mm512_cmpgt_epi16_mask(magnitudes.high, limit)} << 32;
}

inline __m512i magnitude_bits(__m512i words) { return _mm512_xor_si512(words, _mm512_srai_epi16(words, 15)); }

// The values of bytes as nibbles, two a byte.
inline __m256i pack_nibbles(__m512i bytes) {
    const __m512i nibbles = _mm512_and_si512(bytes, _mm512_set1_epi8(15));
    return _mm512_cvtepi16_epi8(_mm512_maddubs_epi16(nibbles, _mm512_set1_epi16(0x1001)));
}

// Packs the bytes whose bits are set in `mask`; may write 64 bytes.
inline std::uint8_t* pack_bytes(__m512i bytes, std::uint64_t mask, std::uint8_t width, std::uint8_t* packed) {
    const __m512i values = _mm512_mask_compress_epi8(zeros(), mask, bytes);
    const __mmask8 is_byte = width == kByte ? 0xFF : 0;
    const __m512i nibbles = _mm512_castsi256_si512(pack_nibbles(values));
    _mm512_storeu_si512(packed, _mm512_mask_blend_epi64(is_byte, nibbles, values));
    return packed + group_bytes(static_cast<unsigned>(__builtin_popcountll(mask)), width);
}

// Packs the words whose bits are set in `mask`; may write 64 bytes.
inline std::uint8_t* pack_words(__m512i words, std::uint64_t mask, std::uint8_t* packed) {
    const auto bits = static_cast<__mmask32>(mask);
    _mm512_storeu_si512(packed, _mm512_mask_compress_epi16(zeros(), bits, words));
    return packed + std::size_t{2} * static_cast<unsigned>(__builtin_popcount(bits));
}

// The values of a block, which follow its head.
inline std::uint8_t* pack_values(const BlockWords& words, std::uint64_t mask, const PackedClass& kind,
                                 std::uint8_t* packed) {
    const __m512i bytes = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi16_epi8(words.low)),
                                             _mm512_cvtepi16_epi8(words.high), 1);
    if (__builtin_expect(kind.low_width != kTwoBytes, 1)) {
        packed = pack_bytes(bytes, mask & kLowGroup, kind.low_width, packed);
        return pack_bytes(bytes, mask & ~kLowGroup, kind.high_width, packed);
    }
    packed = pack_words(words.low, mask & kLowGroup, packed);
    if (kind.high_width == kNibble) return pack_bytes(bytes, mask & ~kLowGroup, kNibble, packed);
    packed = pack_words(words.low, mask & 0xFFFF0000, packed);
    return pack_words(words.high, mask >> 32, packed);
}

inline std::uint8_t* pack_block(const std::int16_t* coefficients, std::uint8_t* packed) {
    const BlockWords words = load_words(coefficients);
    const BlockWords magnitudes = {magnitude_bits(words.low), magnitude_bits(words.high)};
    const std::uint64_t nonzero = std::uint64_t{_mm512_test_epi16_mask(words.low, words.low)} |
                                  std::uint64_t{_mm512_test_epi16_mask(words.high, words.high)} << 32;
    const std::uint64_t mask = nonzero & ~std::uint64_t{1};
    const std::uint64_t beyond_nibble = bits_beyond(magnitudes, _mm512_set1_epi16(7)) & mask;
    const std::uint64_t beyond_byte = bits_beyond(magnitudes, _mm512_set1_epi16(127)) & mask;
    const int index = packed_class(mask, width_beyond(beyond_nibble & kLowGroup, beyond_byte & kLowGroup),
                                   width_beyond(beyond_nibble & ~kLowGroup, beyond_byte & ~kLowGroup));
    packed = write_head(coefficients[0], index, mask, packed);
    return mask == 0 ? packed : pack_values(words, mask, kPackedClasses.of[index], packed);
}

}  // namespace

std::uint8_t* pack_blocks_avx512(const std::int16_t* coefficients, std::size_t count, std::uint8_t* packed) noexcept {
    for (; count != 0; --count, coefficients += 64) {
        if (!does_dc_fit(coefficients[0])) return nullptr;
        packed = pack_block(coefficients, packed);
    }
    return packed;
}

const std::uint8_t* reconstruct_blocks_avx512(const std::uint8_t* packed, const std::uint8_t* end, std::size_t count,
                                              const std::uint16_t* quantization, std::uint8_t* strip_blocks) noexcept {
    const BlockWords zigzag_steps = load_words(quantization);
    const BlockWords steps = split(zigzag_steps.low, zigzag_steps.high);
    const Uniforms uniforms = uniforms_in_registers();
    for (; count != 0; --count, strip_blocks += 64) {
        const PackedBlock block = parse_block(packed);
        if (block.end > end) return nullptr;
        const __m512i samples = block.mask == 0
                                    ? dc_samples(block.dc, quantization[0])
                                    : inverse_dct_samples<kSplitOrder>(expand(block, packed), steps, uniforms);
        _mm512_store_si512(strip_blocks, samples);
        packed = block.end;
    }
    return packed;
}

}  // namespace fastload

FASTLOAD_END_TARGET

#endif

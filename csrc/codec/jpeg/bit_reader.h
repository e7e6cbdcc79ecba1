// The bit buffer of the entropy decoder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace fastload::jpeg {

#define FASTLOAD_ALWAYS_INLINE inline __attribute__((always_inline))

// Bytes that must be readable (their values do not matter) after the data of a reader, see Note [padding].
// Note [padding]
// A reader may run past the end of its data before that is checked. The check follows every MCU. An MCU has at most 10
// blocks, and a block at most one DC symbol of 16 + 11 bits and 63 AC symbols of 16 + 10. So the reader is at most
// 10 * (27 + 63 * 26) / 8 < 2100 bytes after the end, and refill reads 8 more.
constexpr std::size_t kReaderPaddingBytes = 4096;

// Note [bit buffer]
// `bits` holds the next bits of the stream at its top. `count` of them are valid; the bits below may already be right
// as well, because refill only ORs the stream's bits in. Example: with 11 valid bits, refill ORs 64 fresh bits shifted
// right by 11, moves on by (63 - 11) >> 3 = 6 bytes, and count becomes 11 | 56 = 59 = 11 + 6 * 8. So after refill
// 56 <= count <= 63, without a branch. Between two refills the decoder uses at most the bits that the proofs beside it
// add up to.
struct BitReader {
    std::uint64_t bits = 0;
    std::int64_t count = 0;
    const std::uint8_t* next = nullptr;

    BitReader() = default;
    explicit BitReader(const std::uint8_t* data) : next(data) {}

    FASTLOAD_ALWAYS_INLINE void refill() {
        std::uint64_t word = 0;
        std::memcpy(&word, next, sizeof(word));
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        word = __builtin_bswap64(word);
#endif
        bits |= word >> count;
        next += (63 - count) >> 3;
        count |= 56;
    }

    // `length` is at least 1 and at most count.
    FASTLOAD_ALWAYS_INLINE void skip(int length) {
        bits <<= length;
        count -= length;
    }

    // The number of bits of the data at `data` that are used up.
    std::uint64_t position_bits(const std::uint8_t* data) const {
        return static_cast<std::uint64_t>(next - data) * 8 - static_cast<std::uint64_t>(count);
    }
};

// The number that `size` magnitude bits at the top of `bits` encode (T.81 F.2.2.1, EXTEND): a leading 0 bit means a
// negative number. size is 0..16; 0 gives 0.
FASTLOAD_ALWAYS_INLINE std::int32_t extend(std::uint64_t bits, int size) {
    // All ones for a negative number. Two shifts avoid a shift by 64 for size 0.
    const std::uint64_t negative = (bits >> 63) - 1;
    const auto magnitude = static_cast<std::uint32_t>(((bits ^ negative) >> 1) >> (63 - size));
    const auto mask = static_cast<std::uint32_t>(negative);
    return static_cast<std::int32_t>((magnitude ^ mask) - mask);
}

}  // namespace fastload::jpeg

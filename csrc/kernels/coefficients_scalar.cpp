#include <cstring>

#include "kernels/idct.h"
#include "kernels/packed_block.h"

namespace fastload {
namespace {

// Packs the coefficients whose bits are set in `mask`; returns the end.
std::uint8_t* pack_group(const std::int16_t* coefficients, std::uint64_t mask, std::uint8_t width,
                         std::uint8_t* packed) {
    std::uint16_t values[64];
    unsigned count = 0;
    for (; mask != 0; mask &= mask - 1) {
        values[count++] = static_cast<std::uint16_t>(coefficients[__builtin_ctzll(mask)]);
    }
    values[count] = 0;  // fills the byte of a last nibble
    const std::size_t size = group_bytes(count, width);
    for (std::size_t i = 0; i < size; ++i) {
        if (width == kTwoBytes) {
            packed[i] = static_cast<std::uint8_t>(values[i / 2] >> (i % 2 * 8));
        } else if (width == kByte) {
            packed[i] = static_cast<std::uint8_t>(values[i]);
        } else {
            packed[i] = static_cast<std::uint8_t>((values[2 * i] & 15) | values[2 * i + 1] << 4);
        }
    }
    return packed + size;
}

// A bit for each of 64 bytes, which are 0 or 1.
std::uint64_t gather_bits(const std::uint8_t* bytes) {
    std::uint64_t bits = 0;
    for (int i = 0; i < 8; ++i) {
        std::uint64_t eight = 0;
        std::memcpy(&eight, bytes + std::size_t{8} * static_cast<unsigned>(i), sizeof eight);
        bits |= eight * 0x0102040810204080 >> 56 << 8 * i;
    }
    return bits;
}

std::uint8_t* pack_block(const std::int16_t* coefficients, std::uint8_t* packed) {
    std::uint8_t is_nonzero[64];
    for (int k = 0; k < 64; ++k) is_nonzero[k] = coefficients[k] != 0 ? 1 : 0;
    // A number or, if it is negative, its complement: the position of the highest bit tells the width.
    std::uint16_t magnitudes[64];
    for (int k = 0; k < 64; ++k) magnitudes[k] = static_cast<std::uint16_t>(coefficients[k] ^ (coefficients[k] >> 15));
    magnitudes[0] = 0;
    std::uint16_t low = 0;
    std::uint16_t high = 0;
    for (int k = 0; k < 16; ++k) low = static_cast<std::uint16_t>(low | magnitudes[k]);
    for (int k = 16; k < 64; ++k) high = static_cast<std::uint16_t>(high | magnitudes[k]);
    const std::uint64_t mask = gather_bits(is_nonzero) & ~std::uint64_t{1};
    const int index = packed_class(mask, width_beyond(low >> 3, low >> 7), width_beyond(high >> 3, high >> 7));
    const PackedClass& kind = kPackedClasses.of[index];
    packed = write_head(coefficients[0], index, mask, packed);
    packed = pack_group(coefficients, mask & kLowGroup, kind.low_width, packed);
    return pack_group(coefficients, mask & ~kLowGroup, kind.high_width, packed);
}

std::int16_t value_at(const std::uint8_t* values, unsigned index, std::uint8_t width) {
    if (width == kTwoBytes) {
        std::int16_t value = 0;
        std::memcpy(&value, values + std::size_t{2} * index, sizeof value);
        return value;
    }
    if (width == kByte) return static_cast<std::int8_t>(values[index]);
    const int nibble = values[index / 2] >> (index % 2 * 4) & 15;
    return static_cast<std::int16_t>((nibble ^ 8) - 8);
}

void unpack_group(const std::uint8_t* values, std::uint64_t mask, std::uint8_t width, std::int16_t* coefficients) {
    for (unsigned index = 0; mask != 0; mask &= mask - 1, ++index) {
        coefficients[__builtin_ctzll(mask)] = value_at(values, index, width);
    }
}

}  // namespace

void unpack_values(const PackedBlock& block, std::int16_t* coefficients) noexcept {
    unpack_group(block.low_values, block.mask & kLowGroup, block.kind->low_width, coefficients);
    unpack_group(block.high_values, block.mask & ~kLowGroup, block.kind->high_width, coefficients);
}

std::uint8_t* pack_blocks_scalar(const std::int16_t* coefficients, std::size_t count, std::uint8_t* packed) noexcept {
    for (; count != 0; --count, coefficients += 64) {
        if (!does_dc_fit(coefficients[0])) return nullptr;
        packed = pack_block(coefficients, packed);
    }
    return packed;
}

const std::uint8_t* skip_blocks_scalar(const std::uint8_t* packed, const std::uint8_t* end,
                                       std::size_t count) noexcept {
    for (; count != 0; --count) {
        packed = parse_block(packed).end;
        if (packed > end) return nullptr;
    }
    return packed;
}

const std::uint8_t* reconstruct_blocks_scalar(const std::uint8_t* packed, const std::uint8_t* end, std::size_t count,
                                              const std::uint16_t* quantization, std::uint8_t* strip_blocks) noexcept {
    alignas(64) std::int16_t coefficients[64] = {};  // the inverse DCT clears them
    for (; count != 0; --count, strip_blocks += 64) {
        const PackedBlock block = parse_block(packed);
        if (block.end > end) return nullptr;
        packed = block.end;
        if (block.mask == 0) {
            fill_from_dc(block.dc, quantization[0], strip_blocks);
            continue;
        }
        unpack_values(block, coefficients);
        coefficients[0] = block.dc;
        inverse_dct_scalar(coefficients, quantization, strip_blocks);
    }
    return packed;
}

}  // namespace fastload

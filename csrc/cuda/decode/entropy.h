// Huffman decoding of the rows that a sample needs: one thread's part.
#pragma once

#include <cstdint>

#include "cuda/decode/scan_sample.h"

namespace fastload {

enum class PieceFault : std::uint32_t {
    kNone,
    kNoCode,          // bits that are no code
    kTooManyNumbers,  // more than 64 coefficients in a block
    kOtherEnd,        // the piece does not end as the next place begins
    kOutside          // the place is not in the window
};

constexpr int kLookupBits = 9;
constexpr int kLookupSize = 1 << kLookupBits;

struct HuffmanLookup {
    std::uint16_t entries[kLookupSize];  // length << 8 | symbol; 0: longer than 9 bits, or no code
    std::uint8_t symbols[256];
    std::uint32_t limits[17];  // [length]: one more than its last code, followed by zeros to 16 bits
    std::int32_t offsets[17];  // [length]: the number of a symbol minus its code
};

// A block of an MCU.
struct BlockOfMcu {
    std::int32_t first;     // the number that it has in MCU column 0 and row 0 of the image
    std::int32_t mcu_step;  // from an MCU to the one on its right
    std::int32_t row_step;  // and to the one below
    std::uint8_t component;
    std::uint8_t dc_table;
    std::uint8_t ac_table;
};

// The threads that decode pieces of one sample make these together, in three steps. All of them end a step before one
// begins the next: thread `lane` of `lanes` calls begin_tables(), then fill_lookups(), then decode_piece().
struct EntropyTables {
    HuffmanLookup huffman[kScanHuffmanTables];
    BlockOfMcu blocks[kScanBlocksPerMcu];
};

FASTLOAD_HOST_DEVICE inline void begin_lookup(const ScanHuffmanTable& table, HuffmanLookup* lookup) {
    std::uint32_t code = 0;
    std::int32_t symbol = 0;
    for (int length = 1; length <= 16; ++length) {
        code <<= 1;
        lookup->offsets[length] = symbol - static_cast<std::int32_t>(code);
        code += table.counts[length - 1];
        symbol += table.counts[length - 1];
        lookup->limits[length] = code << (16 - length);
    }
}

FASTLOAD_HOST_DEVICE inline BlockOfMcu block_of_mcu(const ScanHead& head, int number) {
    int component = 0;
    while (number >= head.components[component].horizontal * head.components[component].vertical) {
        number -= head.components[component].horizontal * head.components[component].vertical;
        ++component;
    }
    const WireComponent& facts = head.components[component];
    const std::int32_t wide = blocks_wide(head, facts);
    BlockOfMcu block;
    block.mcu_step = facts.horizontal;
    block.row_step = facts.vertical * wide;
    block.first = static_cast<std::int32_t>(facts.first_block) + number / facts.horizontal * wide +
                  number % facts.horizontal - head.left * block.mcu_step - head.top * block.row_step;
    block.component = static_cast<std::uint8_t>(component);
    block.dc_table = facts.dc_table;
    block.ac_table = facts.ac_table;
    return block;
}

FASTLOAD_HOST_DEVICE inline void begin_tables(const ScanSample& sample, int lane, int lanes, EntropyTables* tables) {
    const ScanHead& head = sample.head();
    for (int i = lane; i < head.num_huffman_tables; i += lanes) begin_lookup(sample.huffman(i), &tables->huffman[i]);
    for (int i = lane; i < head.num_huffman_tables * 256; i += lanes) {
        tables->huffman[i / 256].symbols[i % 256] = sample.huffman(i / 256).symbols[i % 256];
    }
    for (int i = lane; i < head.blocks_per_mcu; i += lanes) tables->blocks[i] = block_of_mcu(head, i);
}

// Returns length << 8 | symbol for the 16 bits at the front of the stream; 0 if no code of up to `longest` bits fits.
FASTLOAD_HOST_DEVICE inline std::uint32_t find_code(const HuffmanLookup& lookup, std::uint32_t bits, int longest) {
    int length = 1;
    while (length <= longest && bits >= lookup.limits[length]) ++length;
    if (length > longest) return 0;
    const std::int32_t number = static_cast<std::int32_t>(bits >> (16 - length)) + lookup.offsets[length];
    return static_cast<std::uint32_t>(length) << 8 | lookup.symbols[number & 255];
}

FASTLOAD_HOST_DEVICE inline void fill_lookups(const ScanSample& sample, int lane, int lanes, EntropyTables* tables) {
    for (int i = lane; i < sample.head().num_huffman_tables * kLookupSize; i += lanes) {
        HuffmanLookup& lookup = tables->huffman[i / kLookupSize];
        const auto front = static_cast<std::uint32_t>(i % kLookupSize);
        lookup.entries[front] = static_cast<std::uint16_t>(find_code(lookup, front << (16 - kLookupBits), kLookupBits));
    }
}

// The bits of one piece. A symbol takes at most 16 + 15 bits, so 32 are enough for it. Each word is loaded long before
// it is used.
class PieceBits {
  public:
    FASTLOAD_HOST_DEVICE PieceBits(const std::uint8_t* data, std::uint64_t bytes, std::uint32_t position)
        : words_(reinterpret_cast<const std::uint32_t*>(data)),
          num_words_(static_cast<std::uint32_t>(bytes / 4)),
          next_(position / 32 + 3),
          shift_(position % 32),
          high_(word(position / 32)),
          low_(word(position / 32 + 1)),
          ahead_(word(position / 32 + 2)) {}

    // The 32 bits from here on.
    FASTLOAD_HOST_DEVICE std::uint32_t window() const {
#ifdef __CUDA_ARCH__
        return __funnelshift_l(low_, high_, shift_);
#else
        return shift_ == 0 ? high_ : high_ << shift_ | low_ >> (32 - shift_);
#endif
    }
    FASTLOAD_HOST_DEVICE void skip(std::uint32_t bits) {
        shift_ += bits;
        if (shift_ < 32) return;
        shift_ -= 32;
        high_ = low_;
        low_ = ahead_;
        ahead_ = word(next_++);
    }
    FASTLOAD_HOST_DEVICE std::uint32_t position() const { return (next_ - 3) * 32 + shift_; }

  private:
    // After the end of the data there are zeros.
    FASTLOAD_HOST_DEVICE std::uint32_t word(std::uint32_t number) const {
        if (number >= num_words_) return 0;
#ifdef __CUDA_ARCH__
        return __byte_perm(words_[number], 0, 0x0123);
#else
        return __builtin_bswap32(words_[number]);
#endif
    }

    const std::uint32_t* words_;
    std::uint32_t num_words_;
    std::uint32_t next_;  // the word after `ahead_`
    std::uint32_t shift_;
    std::uint32_t high_, low_, ahead_;
};

// EXTEND of T.81 F.2.2.1: the number in the first `size` (0..15) bits.
FASTLOAD_HOST_DEVICE inline std::int32_t extend(std::uint32_t bits, std::uint32_t size) {
    const std::uint32_t flip = (bits >> 31) - 1;  // all ones if the first bit is 0, which means a negative number
    const std::uint32_t magnitude = ((bits ^ flip) >> 1) >> (31 - size);
    return static_cast<std::int32_t>((magnitude ^ flip) - flip);
}

// Decodes piece `number` into the window's coefficients, which are zero before. A loop step is a symbol of whichever
// block, so that the threads of a warp stay together: with a loop over symbols in one over blocks each block would wait
// for the longest one of the warp.
FASTLOAD_HOST_DEVICE inline PieceFault decode_piece(const ScanSample& sample, const EntropyTables& tables,
                                                    std::uint32_t number) {
    const ScanHead& head = sample.head();
    const ScanPlace& place = sample.place(number);
    const std::int32_t row = place.row;
    const std::int32_t end = place.end;
    if (row < head.top || row >= head.bottom || place.first >= end || place.first >= head.right)
        return PieceFault::kOutside;
    const ScanLayout layout(head);
    PieceBits bits(sample.wire + layout.data, layout.end - layout.data, place.position_bits);
    std::int16_t* const coefficients = sample.coefficients();
    const std::int32_t left = head.left;
    const std::int32_t right = head.right;
    const int last_block = head.blocks_per_mcu - 1;
    // Unsigned: wrong bits may add up to more than an int holds.
    std::uint32_t prediction0 = static_cast<std::uint32_t>(place.predictions[0]);
    std::uint32_t prediction1 = static_cast<std::uint32_t>(place.predictions[1]);
    std::uint32_t prediction2 = static_cast<std::uint32_t>(place.predictions[2]);
    std::int32_t mcu = place.first;
    int b = 0;
    BlockOfMcu block = tables.blocks[0];
    bool is_kept = mcu >= left;  // begins before the right edge
    std::int16_t* out = coefficients + 64 * (is_kept ? block.first + mcu * block.mcu_step + row * block.row_step : 0);
    std::uint32_t k = 0;
    while (true) {
        const HuffmanLookup& lookup = tables.huffman[k == 0 ? block.dc_table : block.ac_table];
        const std::uint32_t window = bits.window();
        std::uint32_t entry = lookup.entries[window >> (32 - kLookupBits)];
        if (entry == 0) entry = find_code(lookup, window >> 16, 16);
        if (entry == 0) return PieceFault::kNoCode;
        const std::uint32_t length = entry >> 8;
        const std::uint32_t size = entry & 15;
        const std::uint32_t run = entry >> 4 & 15;
        std::uint32_t value = static_cast<std::uint32_t>(extend(window << length, size));
        bits.skip(length + size);
        if (k == 0) {
            prediction0 += block.component == 0 ? value : 0;
            prediction1 += block.component == 1 ? value : 0;
            prediction2 += block.component == 2 ? value : 0;
            value = block.component == 0 ? prediction0 : (block.component == 1 ? prediction1 : prediction2);
        } else {
            k += run;
        }
        // Size 0 after the DC symbol: the end of the block, or sixteen zeros.
        const bool is_value = size != 0 || k == 0;
        const bool goes_on = is_value || run == 15;
        if (k > 63 && goes_on) return PieceFault::kTooManyNumbers;
        if (is_value && is_kept) out[k] = static_cast<std::int16_t>(value);
        k = goes_on ? k + 1 : 64;
        if (k != 64) continue;
        if (b == last_block) {
            b = 0;
            if (++mcu == end) break;
        } else {
            ++b;
        }
        block = tables.blocks[b];
        is_kept = mcu >= left && mcu < right;
        out = coefficients + 64 * (is_kept ? block.first + mcu * block.mcu_step + row * block.row_step : 0);
        k = 0;
    }
    const bool has_same_predictions = prediction0 == static_cast<std::uint32_t>(place.end_predictions[0]) &&
                                      prediction1 == static_cast<std::uint32_t>(place.end_predictions[1]) &&
                                      prediction2 == static_cast<std::uint32_t>(place.end_predictions[2]);
    const bool lands = place.end_bits == bits.position() && has_same_predictions;
    return place.end_bits == kNoScanPosition || lands ? PieceFault::kNone : PieceFault::kOtherEnd;
}

}  // namespace fastload

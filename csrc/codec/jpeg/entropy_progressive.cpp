#include "codec/jpeg/entropy_progressive.h"

#include <algorithm>
#include <cstring>

namespace fastload::jpeg {
namespace {

// The bits of an AC scan's block, or of one DC coefficient, are read one symbol at a time, with a refill before each.
// Bit budget: refill leaves at least 56 bits. A symbol takes at most kMaxBandSymbolBits = 30, so that 26 are left for
// the next lookup, which needs 9 and is made before the next refill. Correction bits have their own refills.
static_assert(56 - kMaxBandSymbolBits >= kLookupBits);

// Positions k..63; k is 0..63.
constexpr NonzeroMask from(int k) { return ~NonzeroMask{0} << k; }
constexpr NonzeroMask bit_of(int k) { return NonzeroMask{1} << k; }

struct Band {
    const BandTable* table;
    int start;
    int end;
    int shift;
    NonzeroMask positions;

    Band(const BandTable* table_of_scan, const Scan& scan)
        : table(table_of_scan),
          start(scan.spectral_start),
          end(scan.spectral_end),
          shift(scan.approximation_low),
          positions(from(start) & ~(from(end) << 1)) {}
};

FASTLOAD_ALWAYS_INLINE bool read_symbol(BitReader& reader, const BandTable& table, BandSymbol* symbol) {
    *symbol = table.lookup[reader.bits >> (64 - kLookupBits)];
    reader.refill();
    if (__builtin_expect(symbol->total_bits == 0, 0)) *symbol = table.find(reader.bits);
    return symbol->total_bits != 0;
}

// The number of blocks that an end of band covers, the current one included: T.81 G.1.2.2, EOBn.
FASTLOAD_ALWAYS_INLINE std::uint32_t run_of_blocks(std::uint64_t bits, int length) {
    return (1U << length) + static_cast<std::uint32_t>((bits >> 1) >> (63 - length));
}

// Reads the band of one block in the band's first scan. If the block begins a run, *blocks, which is 0, receives the
// number of blocks after it in the run. Returns false for data that no encoder writes.
template <bool kIsKept>
FASTLOAD_ALWAYS_INLINE bool read_band(BitReader& reader, const Band& band, std::int16_t* block, NonzeroMask* nonzero,
                                      std::uint32_t* blocks) {
    int k = band.start;
    NonzeroMask found = 0;
    do {
        BandSymbol symbol;
        if (!read_symbol(reader, *band.table, &symbol)) return false;
        const std::uint64_t extra = reader.bits << symbol.code_bits;
        reader.skip(symbol.total_bits);
        if (symbol.size != 0) {
            k += symbol.run;
            if (k > band.end) return false;
            if (kIsKept) {
                block[k] = static_cast<std::int16_t>(extend(extra, symbol.size) * (std::int32_t{1} << band.shift));
            }
            found |= bit_of(k);
            ++k;
        } else if (symbol.run == kZeroRunLength) {
            k += 16;
        } else {
            *blocks = run_of_blocks(extra, symbol.run) - 1;
            break;
        }
    } while (k <= band.end);
    *nonzero |= found;
    return k <= band.end + 1;
}

// [zeros]: the positions of zeros among eight positions; bit i of `zeros` is set if the i-th is a zero. Byte n is the
// position of the zero after n other zeros, or kNotHere. One load indexed by data known early, so that the run of a
// symbol only has to shift it: this is on the serial chain from symbol to symbol.
constexpr int kNotHere = 255;
struct ZeroPlaces {
    std::uint64_t of[256] = {};
    constexpr ZeroPlaces() {
        for (unsigned zeros = 0; zeros < 256; ++zeros) {
            of[zeros] = ~std::uint64_t{0};
            for (unsigned i = 0, run = 0; i < 8; ++i) {
                if ((zeros >> i & 1U) == 0) continue;
                of[zeros] ^= (std::uint64_t{kNotHere} ^ i) << (8 * run);
                ++run;
            }
        }
    }
};
constexpr ZeroPlaces kZeroPlaces;

// The position of the zero after `run` zeros, from k on, or 64 if there is none. Bit i of `zeros` is set if the
// coefficient at i is zero.
FASTLOAD_ALWAYS_INLINE int find_zero(NonzeroMask zeros, int k, int run) {
    const std::uint64_t places = kZeroPlaces.of[zeros >> k & 255];
    const auto place = static_cast<int>(places >> (8 * run & 63) & 255);
    if (__builtin_expect(run < 8 && place != kNotHere, 1)) return k + place;
    zeros &= from(k);
    for (int i = 0; i < run; ++i) zeros &= zeros - 1;
    return zeros == 0 ? 64 : __builtin_ctzll(zeros);
}

FASTLOAD_ALWAYS_INLINE int count_bits(NonzeroMask mask) {
    mask -= mask >> 1 & 0x5555555555555555U;
    mask = (mask & 0x3333333333333333U) + (mask >> 2 & 0x3333333333333333U);
    mask = (mask + (mask >> 4)) & 0x0F0F0F0F0F0F0F0FU;
    return static_cast<int>(mask * 0x0101010101010101U >> 56);
}

// Appends the next `count` bits, 0..63, to *taken. At least 24 bits must be valid before it, and 15 are after it.
FASTLOAD_ALWAYS_INLINE void take_bits(BitReader& reader, int count, std::uint64_t* taken) {
    if (__builtin_expect(count > 24, 0)) {
        for (; count > 24; count -= 24) {
            *taken = *taken << 24 | reader.bits >> 40;
            reader.skip(24);
            reader.refill();
        }
    }
    *taken = *taken << count | (reader.bits >> 1) >> (63 - count);
    reader.skip(count);
}

// Eight coefficients side by side, so that compilers use the vector instructions of any processor.
using Lanes = std::int16_t __attribute__((vector_size(16)));

FASTLOAD_ALWAYS_INLINE Lanes all_lanes(int value) {
    const auto lane = static_cast<std::int16_t>(value);
    return Lanes{lane, lane, lane, lane, lane, lane, lane, lane};
}

// All ones in the lanes whose bit is set in the low 8 of `bits`.
FASTLOAD_ALWAYS_INLINE Lanes lanes_of(NonzeroMask bits) {
    constexpr Lanes kLaneBits = {1, 2, 4, 8, 16, 32, 64, 128};
    return (all_lanes(static_cast<int>(bits & 255)) & kLaneBits) != 0;
}

// Moves the coefficients at `positions` away from zero by 1 << shift. A zero becomes negative if its bit in `negative`
// is set.
FASTLOAD_ALWAYS_INLINE void add_bits(NonzeroMask positions, NonzeroMask negative, int shift, std::int16_t* block) {
    const Lanes step = all_lanes(1 << shift);
    for (int group = 0; group < 64; group += 8, block += 8) {
        Lanes values;
        std::memcpy(&values, block, sizeof(values));
        const Lanes sign = (values >> 15) | lanes_of(negative >> group);
        values += ((lanes_of(positions >> group) & step) ^ sign) - sign;
        std::memcpy(block, &values, sizeof(values));
    }
}

// The positions in `history` whose bit is set. The last of `bits` belongs to the highest position.
FASTLOAD_ALWAYS_INLINE NonzeroMask deposit(std::uint64_t bits, NonzeroMask history) {
    if (history == 0) return 0;
    bits <<= 64 - count_bits(history);
    NonzeroMask positions = 0;
    for (; history != 0; history &= history - 1, bits <<= 1) {
        positions |= (history & (0 - history)) & (0 - (bits >> 63));
    }
    return positions;
}

// Reads the band of one block in a refinement scan (T.81 G.1.2.3). Like read_band, but if *blocks is not 0, the block
// lies in a run of blocks. Collects the correction bits of all coefficients that were not zero before, and the new
// coefficients; values change once, at the end.
template <bool kIsKept>
FASTLOAD_ALWAYS_INLINE bool refine_band(BitReader& reader, const Band& band, std::int16_t* block, NonzeroMask* nonzero,
                                        std::uint32_t* blocks) {
    const NonzeroMask history = *nonzero & band.positions;
    NonzeroMask fresh = 0;
    NonzeroMask negative = 0;
    std::uint64_t corrections = 0;
    int k = band.start;
    if (*blocks == 0) {
        const NonzeroMask zeros = ~history & band.positions;
        do {
            BandSymbol symbol;
            if (!read_symbol(reader, *band.table, &symbol)) return false;
            const std::uint64_t extra = reader.bits << symbol.code_bits;
            reader.skip(symbol.total_bits);
            if (symbol.size == 0 && symbol.run != kZeroRunLength) {
                *blocks = run_of_blocks(extra, symbol.run);
                break;
            }
            const int position = find_zero(zeros, k, symbol.run);
            if (symbol.size > 1 || position > 63) return false;
            take_bits(reader, position - k - symbol.run, &corrections);
            fresh |= NonzeroMask{symbol.size} << position;
            negative |= (~extra >> 63) << position;
            k = position + 1;
        } while (k <= band.end);
    }
    if (*blocks != 0) {
        const NonzeroMask rest = history & from(k);
        if (rest != 0) {
            reader.refill();
            take_bits(reader, count_bits(rest), &corrections);
        }
        --*blocks;
    }
    *nonzero |= fresh;
    if (kIsKept) {
        const NonzeroMask positions = deposit(corrections, history) | fresh;
        if (positions != 0) add_bits(positions, negative & fresh, band.shift, block);
    }
    return true;
}

FASTLOAD_ALWAYS_INLINE bool read_dc_difference(BitReader& reader, const DcTable& table, std::int32_t* difference) {
    reader.refill();
    Symbol symbol = table.lookup[reader.bits >> (64 - kLookupBits)];
    if (__builtin_expect(symbol.length == 0, 0)) symbol = table.code.find(reader.bits);
    if (symbol.length == 0) return false;
    *difference = extend(reader.bits << symbol.length, symbol.value);
    reader.skip(symbol.length + symbol.value);
    return true;
}

}  // namespace

void ProgressiveScan::begin(const ScanData& data, const Scan& scan, std::uint32_t mcu_count,
                            std::uint32_t restart_interval) noexcept {
    SegmentWalk::begin(data, mcu_count, restart_interval, scan.data_offset);
    scan_ = scan;
    run_of_blocks_ = 0;
    dc_block_count_ = 0;
    band_ = {};
}

Status ProgressiveScan::finish() const noexcept {
    const Status status = SegmentWalk::finish();
    const bool is_run_cut = is_in_segment_ && mcus_left_in_segment_ == 0 && run_of_blocks_ != 0;
    return status.is_ok() && is_run_cut ? irregular("a run of blocks reaches behind its segment") : status;
}

Status ProgressiveScan::run(std::uint32_t count, bool is_kept) noexcept {
    std::uint32_t first = 0;
    while (first < count) {
        if (mcus_left_in_segment_ == 0) {
            const Status status = finish();
            if (!status.is_ok()) return status;
            start_segment();
        }
        const std::uint32_t part = std::min(count - first, mcus_left_in_segment_);
        if (!(is_kept ? run_part<true>(first, part) : run_part<false>(first, part))) {
            return irregular("a code that no table has, or a coefficient out of its band or range");
        }
        first += part;
        mcus_left_ -= part;
        mcus_left_in_segment_ -= part;
    }
    return Status::ok();
}

template <bool kIsKept>
bool ProgressiveScan::run_part(std::uint32_t first, std::uint32_t count) noexcept {
    if (scan_.is_dc()) {
        return scan_.is_refinement() ? refine_dc<kIsKept>(first, count) : decode_dc<kIsKept>(first, count);
    }
    return scan_.is_refinement() ? read_bands<kIsKept, true>(first, count) : read_bands<kIsKept, false>(first, count);
}

template <bool kIsKept>
bool ProgressiveScan::decode_dc(std::uint32_t first, std::uint32_t count) noexcept {
    BitReader reader = reader_;
    for (std::uint32_t mcu = first; mcu < first + count; ++mcu) {
        for (int b = 0; b < dc_block_count_; ++b) {
            const DcScanBlock& plan = dc_blocks_[b];
            std::int32_t difference = 0;
            if (!read_dc_difference(reader, *plan.table, &difference)) return false;
            predictions_[plan.prediction] += static_cast<std::uint32_t>(difference);
            const auto dc = static_cast<std::int32_t>(predictions_[plan.prediction]);
            const std::int32_t value = dc * (std::int32_t{1} << scan_.approximation_low);
            // libjpeg would cut this value to 16 bits, or give up on it.
            if (value != static_cast<std::int16_t>(value)) return false;
            if (kIsKept && mcu < plan.kept_mcus) plan.output[mcu * plan.mcu_stride] = static_cast<std::int16_t>(value);
        }
        if (reader.next > limit()) return false;
    }
    reader_ = reader;
    return true;
}

template <bool kIsKept>
bool ProgressiveScan::refine_dc(std::uint32_t first, std::uint32_t count) noexcept {
    BitReader reader = reader_;
    for (std::uint32_t mcu = first; mcu < first + count; ++mcu) {
        reader.refill();
        for (int b = 0; b < dc_block_count_; ++b) {
            const DcScanBlock& plan = dc_blocks_[b];
            if (kIsKept && mcu < plan.kept_mcus) {
                std::int16_t& value = plan.output[mcu * plan.mcu_stride];
                const auto bit = static_cast<int>(reader.bits >> 63) << scan_.approximation_low;
                value = static_cast<std::int16_t>(value | bit);
            }
            reader.skip(1);
        }
        if (reader.next > limit()) return false;
    }
    reader_ = reader;
    return true;
}

template <bool kIsKept, bool kIsRefinement>
bool ProgressiveScan::read_bands(std::uint32_t first, std::uint32_t count) noexcept {
    const Band band(band_.table, scan_);
    BitReader reader = reader_;
    std::int16_t* const blocks = kIsKept ? band_.output + 64 * std::size_t{first} : nullptr;
    NonzeroMask* const nonzero = band_.nonzero + (mcu_count_ - mcus_left_);
    std::uint32_t run = run_of_blocks_;
    for (std::uint32_t i = 0; i < count; ++i) {
        // A block in a run has no symbols; in a refinement scan it has correction bits for its nonzero coefficients.
        if (run != 0 && !(kIsRefinement && (nonzero[i] & band.positions) != 0)) {
            --run;
            continue;
        }
        std::int16_t* const block = kIsKept ? blocks + 64 * std::size_t{i} : nullptr;
        const bool is_read = kIsRefinement ? refine_band<kIsKept>(reader, band, block, nonzero + i, &run)
                                           : read_band<kIsKept>(reader, band, block, nonzero + i, &run);
        if (!is_read || reader.next > limit()) return false;
    }
    run_of_blocks_ = run;
    reader_ = reader;
    return true;
}

}  // namespace fastload::jpeg

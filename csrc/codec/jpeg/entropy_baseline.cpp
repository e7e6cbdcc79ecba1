#include "codec/jpeg/entropy_baseline.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/idct.h"
#include "kernels/target_region.h"

// GCC's vectoriser of straight-line code packs two state variables of the block loop into one vector register, which
// lengthens the serial chain from lookup to lookup.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-slp-vectorize")
#endif

namespace fastload::jpeg {
namespace {

// A single symbol and its value, decoded without the lookups. Out of line and by value, so that the caller's bit buffer
// stays in registers.
struct SlowSymbol {
    int bits = 0;  // code and magnitude together; 0 if no code fits
    int run = 0;
    int size = 0;
    std::int32_t value = 0;
};

__attribute__((noinline)) SlowSymbol decode_slowly(const CanonicalCode& code, std::uint64_t bits) {
    const Symbol symbol = code.find(bits);
    if (symbol.length == 0) return {};
    const int size = symbol.value & 15;
    return {symbol.length + size, symbol.value >> 4, size, extend(bits << symbol.length, size)};
}

// Result of a block: the zigzag position at which it ended, or kBadBlock. kDcOnly is the position of an EOB that
// follows the DC coefficient directly.
constexpr std::uint64_t kBadBlock = 0;
constexpr std::uint64_t kDcOnly = 1 + kEndOfBlock;

// The steps of a block end at k from 64 on: a step that took in an EOB leaves k in 129..191, and k == 64 means that
// coefficient 63 was the last. One comparison, because a branch for each case would often be predicted wrongly.
constexpr bool is_block_end(std::uint64_t k) { return static_cast<std::uint8_t>((k ^ 64) - 1) >= 192; }

constexpr bool is_block_end_right_for_all_steps() {
    for (std::uint64_t k = 64; k <= 63 + 255; ++k) {
        if (is_block_end(k) != (k == 64 || (k > kEndOfBlock && k < kEndOfBlock + 64))) return false;
    }
    return true;
}
static_assert(is_block_end_right_for_all_steps());

// Note [bits between refills]
// The index of a step is taken before the next refill, which keeps refills off the serial chain from lookup to lookup.
// A refill leaves at least 56 bits; each index needs 9 bits, and each symbol its own, from what is left:
// - A refill, a DC symbol of at most 16 + 11 = 27 bits: 29 are left for the index of the first step.
// - A refill, two steps of at most 19 bits: 18 are left for the next index, of a step or of a DC symbol. A symbol
//   decoded by itself instead of the second takes up to 16 + 10 = 26: then 11 are left.
// So 11 bits are left at the end of every block; a run of MCUs begins with a refill for its first block.
static_assert(56 - 16 - kMaxDcSize >= kLookupBits);
static_assert(56 - 2 * kMaxStepBits >= kLookupBits);
static_assert(56 - kMaxStepBits - 16 - kMaxAcSize >= kLookupBits);

FASTLOAD_ALWAYS_INLINE std::uint64_t lookup_index(const BitReader& reader) { return reader.bits >> (64 - kLookupBits); }

FASTLOAD_ALWAYS_INLINE bool decode_dc(BitReader& reader, const DcTable& table, std::uint32_t* prediction) {
    const Symbol symbol = table.lookup[lookup_index(reader)];
    reader.refill();
    if (__builtin_expect(symbol.length == 0, 0)) {
        const SlowSymbol slow = decode_slowly(table.code, reader.bits);
        if (slow.bits == 0) return false;
        // A DC symbol is its size; sizes stay below 16, so the run is 0.
        *prediction += static_cast<std::uint32_t>(slow.value);
        reader.skip(slow.bits);
        return true;
    }
    const int size = symbol.value;
    *prediction += static_cast<std::uint32_t>(extend(reader.bits << symbol.length, size));
    reader.skip(symbol.length + size);
    return true;
}

// Applies the step `index` at position *k: Note [AC steps].
template <bool kIsKept>
FASTLOAD_ALWAYS_INLINE void take_step(BitReader& reader, const AcTable& table, std::uint64_t index, std::int16_t* block,
                                      std::uint64_t* k) {
    const AcStep& step = table.steps[index];
    if (kIsKept) {
        std::memcpy(block + *k, table.patterns[index], sizeof(table.patterns[0]));
        const std::uint64_t tail = reader.bits << step.tail_offset;
        const std::uint64_t negative = (tail >> 63) - 1;
        const std::uint64_t magnitude = (tail ^ negative) >> step.tail_shift;
        block[*k + step.tail_position] = static_cast<std::int16_t>((magnitude ^ negative) - negative);
    }
    *k += step.advance;
    reader.skip(step.total_bits);
}

// Takes back the step that led from `bits` to position k and decodes one symbol by itself instead. Returns the position
// after that symbol; kBadBlock and positions from 64 on are the block's result.
template <bool kIsKept>
FASTLOAD_ALWAYS_INLINE std::uint64_t replace_step(BitReader& reader, const AcTable& table, std::uint64_t bits,
                                                  std::int16_t* block, std::uint64_t k) {
    const AcStep& step = table.steps[bits >> (64 - kLookupBits)];
    k -= step.advance;
    reader.bits = bits;
    reader.count += step.total_bits;
    const SlowSymbol slow = decode_slowly(table.code, bits);
    if (slow.bits == 0) return kBadBlock;
    reader.skip(slow.bits);
    if (slow.size == 0) {
        if (slow.run == 0) return k + kEndOfBlock;
        k += 16;
    } else {
        k += static_cast<unsigned>(slow.run);
        if (k > 63) return kBadBlock;
        if (kIsKept) block[k] = static_cast<std::int16_t>(slow.value);
        ++k;
    }
    return k > 64 ? kBadBlock : k;
}

// The AC coefficients of a block from zigzag position 1 on, in pairs of steps with a refill before each pair.
//
// A step that leaves k at 64 or more without ending a block cannot be used as it is. Either no code of up to 9 bits
// fits; or the block ended inside of the step, so that its other symbols belong to the next block; or a run leaves the
// block. Decoding one symbol by itself tells the three apart.
template <bool kIsKept>
FASTLOAD_ALWAYS_INLINE std::uint64_t decode_ac(BitReader& reader, const AcTable& table, std::int16_t* block) {
    std::uint64_t k = 1;
    while (true) {
        const std::uint64_t first = lookup_index(reader);
        reader.refill();
        std::uint64_t bits = reader.bits;
        take_step<kIsKept>(reader, table, first, block, &k);
        if (__builtin_expect(k < 64, 1)) {
            bits = reader.bits;
            take_step<kIsKept>(reader, table, lookup_index(reader), block, &k);
            if (__builtin_expect(k < 64, 1)) continue;
        }
        if (__builtin_expect(is_block_end(k), 1)) return k;
        k = replace_step<kIsKept>(reader, table, bits, block, k);
        if (k == kBadBlock || k >= 64) return k;
    }
}

// Note [delayed transform]
// The inverse DCT of a block, or its packing, runs after the DC symbol of the next block. Its loads are wider than the
// stores of the entropy decoder, so they wait until those have reached the cache; and right after the end of a block,
// which is often predicted wrongly, there is nothing else to do. So the blocks of a run of MCUs alternate between two
// buffers, and the run ends with the last block's transform. A block that is still pending when a run fails is dropped
// with the scan.
struct PendingBlock {
    std::int16_t* coefficients = nullptr;  // null: none pending
    const std::uint16_t* quantization = nullptr;
    std::uint8_t* output = nullptr;
    PackedRow* row = nullptr;

    // Transforms the block into samples at `output`, or packs it into its row if it belongs there. The coefficients are
    // zero afterwards.
    template <bool kIsPacked>
    FASTLOAD_ALWAYS_INLINE void complete(InverseDctFunction inverse_dct, PackBlocksFunction pack_blocks) const {
        if (coefficients == nullptr) return;
        if (!kIsPacked) return inverse_dct(coefficients, quantization, output);
        if (row->blocks_to_come != 0) {
            row->next = pack_blocks(coefficients, 1, row->next);
            row->blocks_to_come = row->next == nullptr ? 0 : row->blocks_to_come - 1;
        }
        clear_block(coefficients);
    }
};

}  // namespace

void EntropyScan::begin(const ScanData& data, std::uint32_t mcu_count, std::uint32_t restart_interval,
                        const KernelTable& kernels, std::uint64_t file_offset) noexcept {
    SegmentWalk::begin(data, mcu_count, restart_interval, file_offset);
    inverse_dct_ = kernels.inverse_dct;
    pack_blocks_ = kernels.pack_blocks;
    has_bmi2_ = kernels.has_bmi2;
    block_count_ = 0;
    std::memset(buffers_, 0, sizeof(buffers_));
}

bool EntropyScan::resume(const Checkpoint& checkpoint, std::uint32_t mcu) noexcept {
    if (!is_in_segment_) start_segment();
    if (reader_.position_bits(data_.bytes) > checkpoint.position_bits) return false;
    reader_ = BitReader(data_.bytes + checkpoint.position_bits / 8);
    reader_.refill();
    reader_.skip(static_cast<int>(checkpoint.position_bits % 8));
    for (int i = 0; i < kMaxComponents; ++i) {
        predictions_[i] = static_cast<std::uint32_t>(std::int32_t{checkpoint.predictions[i]});
    }
    mcus_left_ = mcu_count_ - mcu;
    mcus_left_in_segment_ = mcus_left_;
    return true;
}

// Skips the segments that lie completely in the next `count` MCUs, but never the last one of the scan. Returns the
// number of MCUs in them.
std::uint32_t EntropyScan::skip_segments(std::uint32_t count) noexcept {
    const std::uint32_t segments = std::min(count, mcus_left_ - 1) / restart_interval_;
    is_in_segment_ = false;
    next_segment_ += segments;
    mcus_left_ -= segments * restart_interval_;
    return segments * restart_interval_;
}

template <EntropyScan::Target kTarget>
Status EntropyScan::run(std::uint32_t count, std::uint32_t first) noexcept {
    const std::uint32_t end = first + count;
    while (first < end) {
        if (mcus_left_in_segment_ == 0) {
            const Status status = finish();
            if (!status.is_ok()) return status;
            if (kTarget == Target::kNone) first += skip_segments(end - first);
            if (first == end) return status;
            start_segment();
        }
        const std::uint32_t part = std::min(end - first, mcus_left_in_segment_);
        if (!run_mcus<kTarget>(first, part)) return irregular("a code that no table has, or a block too long");
        first += part;
        mcus_left_ -= part;
        mcus_left_in_segment_ -= part;
    }
    return Status::ok();
}

// Note [two compilations]
// The loop is shifts by variable amounts, which BMI2 does in one instruction each, without the flags. It is plain C++,
// compiled twice by being inlined into two functions; nothing in it may be out of line.
template <EntropyScan::Target kTarget>
FASTLOAD_ALWAYS_INLINE bool EntropyScan::run_mcus_inline(std::uint32_t first, std::uint32_t count) noexcept {
    BitReader reader = reader_;
    reader.refill();
    const std::uint8_t* const next_limit = limit();
    std::int16_t* block = buffers_[0].coefficients;
    std::int16_t* other = buffers_[1].coefficients;
    PendingBlock pending;
    constexpr bool kIsKept = kTarget != Target::kNone;
    constexpr bool kIsPacked = kTarget == Target::kPacked;
    for (std::uint32_t mcu = first; mcu < first + count; ++mcu) {
        for (int b = 0; b < block_count_; ++b) {
            const ScanBlock& plan = blocks_[b];
            if (!decode_dc(reader, *plan.dc, &predictions_[plan.prediction])) return false;
            pending.complete<kIsPacked>(inverse_dct_, pack_blocks_);
            const std::uint64_t end = decode_ac<kIsKept>(reader, *plan.ac, block);
            if (end == kBadBlock) return false;
            if (!kIsKept) continue;
            block[0] = static_cast<std::int16_t>(predictions_[plan.prediction]);
            std::uint8_t* const output = kIsPacked ? nullptr : plan.output + mcu * plan.mcu_stride_bytes;
            if (!kIsPacked && end == kDcOnly) {
                fill_from_dc(block[0], plan.quantization[0], output);
                pending = {};
            } else {
                pending = {block, plan.quantization, output, plan.row};
                std::swap(block, other);
            }
        }
        if (reader.next > next_limit) return false;
    }
    pending.complete<kIsPacked>(inverse_dct_, pack_blocks_);
    reader_ = reader;
    return true;
}

// No other file defines this template, and only run_mcus() calls it: see Note [target regions].
#if FASTLOAD_HAS_X86_KERNELS
FASTLOAD_BEGIN_TARGET("bmi,bmi2")
#endif
template <EntropyScan::Target kTarget>
bool EntropyScan::run_mcus_bmi2(std::uint32_t first, std::uint32_t count) noexcept {
    return run_mcus_inline<kTarget>(first, count);
}
#if FASTLOAD_HAS_X86_KERNELS
FASTLOAD_END_TARGET
#endif

template <EntropyScan::Target kTarget>
bool EntropyScan::run_mcus(std::uint32_t first, std::uint32_t count) noexcept {
    const bool has_bmi2 = FASTLOAD_HAS_X86_KERNELS && has_bmi2_;
    return has_bmi2 ? run_mcus_bmi2<kTarget>(first, count) : run_mcus_inline<kTarget>(first, count);
}

template Status EntropyScan::run<EntropyScan::Target::kNone>(std::uint32_t, std::uint32_t) noexcept;
template Status EntropyScan::run<EntropyScan::Target::kSamples>(std::uint32_t, std::uint32_t) noexcept;
template Status EntropyScan::run<EntropyScan::Target::kPacked>(std::uint32_t, std::uint32_t) noexcept;

}  // namespace fastload::jpeg

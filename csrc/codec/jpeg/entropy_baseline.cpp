#include "codec/jpeg/entropy_baseline.h"

#include <algorithm>
#include <cstring>

#include "codec/jpeg/dc_block.h"
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
    int bits = 0;  // code and magnitude together; 0 where no code fits
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
constexpr int kBadBlock = 0;
constexpr int kDcOnly = 1 + kEndOfBlock;

// Bit budget: at most 16 + 11 bits, and 56 are there after refill.
FASTLOAD_ALWAYS_INLINE bool decode_dc(BitReader& reader, const DcTable& table, std::uint32_t* prediction) {
    reader.refill();
    const Symbol symbol = table.lookup[reader.bits >> (64 - kLookupBits)];
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

// The AC coefficients of a block from zigzag position 1 on. See Note [AC steps] for the tables.
//
// Bit budget: refill leaves at least 56 bits. Two steps take at most 2 * 19 = 38; the index of the third needs 9 more,
// 47 in all. A symbol decoded slowly takes at most 16 + 10 = 26 and is followed by a refill; when it is the second of a
// pair, 19 + 26 = 45 are needed. So no step reads a bit that is not there, and the next index is looked up before the
// refill, which leaves the refill off the serial chain.
//
// Ends: a step that took in an EOB leaves k in 129..191, and k == 64 means that coefficient 63 was its last. Everything
// else from 64 on is a step that cannot be used as it is: no code of up to 9 bits; or the block ended inside of it, so
// that its other symbols belong to the next block; or a run that leaves the block. Then the state before the step is
// restored and one symbol decoded by itself, which tells the three apart.
template <bool kIsKept>
FASTLOAD_ALWAYS_INLINE int decode_ac(BitReader& reader, const AcTable& table, std::int16_t* block) {
    std::uint64_t bits = 0;
    int count = 0;
    int k = 1;
    reader.refill();
    std::uint64_t index = reader.bits >> (64 - kLookupBits);
    bool is_second = false;
    while (true) {
        const AcStep& step = table.steps[index];
        bits = reader.bits;
        count = reader.count;
        if (kIsKept) {
            std::memcpy(block + k, table.patterns[index], sizeof(table.patterns[0]));
            const std::uint64_t tail = bits << step.tail_offset;
            const std::uint64_t negative = (tail >> 63) - 1;
            const std::uint64_t magnitude = (tail ^ negative) >> step.tail_shift;
            block[k + step.tail_position] = static_cast<std::int16_t>((magnitude ^ negative) - negative);
        }
        k += step.advance;
        reader.skip(step.total_bits);
        if (__builtin_expect(k >= 64, 0)) {
            if (k == 64 || (k > kEndOfBlock && k < kEndOfBlock + 64)) return k;
            k -= step.advance;
            const SlowSymbol slow = decode_slowly(table.code, bits);
            if (slow.bits == 0) return kBadBlock;
            reader.bits = bits;
            reader.count = count;
            reader.skip(slow.bits);
            if (slow.size == 0) {
                if (slow.run == 0) return k + kEndOfBlock;
                k += 16;
            } else {
                k += slow.run;
                if (k > 63) return kBadBlock;
                if (kIsKept) block[k] = static_cast<std::int16_t>(slow.value);
                ++k;
            }
            if (k == 64) return k;
            if (k > 64) return kBadBlock;
            reader.refill();
            index = reader.bits >> (64 - kLookupBits);
            is_second = false;
            continue;
        }
        index = reader.bits >> (64 - kLookupBits);
        if (is_second) reader.refill();
        is_second = !is_second;
    }
}

}  // namespace

void EntropyScan::begin(const ScanData& data, std::uint32_t mcu_count, std::uint32_t restart_interval,
                        const KernelTable& kernels, std::uint64_t file_offset) noexcept {
    data_ = data;
    inverse_dct_ = kernels.inverse_dct;
    has_bmi2_ = kernels.has_bmi2;
    file_offset_ = file_offset;
    mcus_left_ = mcu_count;
    mcus_left_in_segment_ = 0;
    restart_interval_ = restart_interval == 0 ? mcu_count : restart_interval;
    next_segment_ = 0;
    segment_end_ = 0;
    is_in_segment_ = false;
    reader_ = BitReader(data.bytes);
    block_count_ = 0;
    std::memset(block_, 0, sizeof(block_));
}

Status EntropyScan::irregular(const char* detail) const noexcept {
    // Exact but for the stuffing, which is about one byte in 300.
    return Status::irregular(detail, file_offset_ + reader_.position_bits(data_.bytes) / 8);
}

Status EntropyScan::finish() const noexcept {
    if (!is_in_segment_) return Status::ok();
    const std::uint64_t used = reader_.position_bits(data_.bytes);
    const char* const fault = segment_end_fault(used, segment_end_, mcus_left_in_segment_ == 0);
    return fault == nullptr ? Status::ok() : irregular(fault);
}

// Leaves the current segment, which is read completely.
Status EntropyScan::start_segment() noexcept {
    const Status status = finish();
    if (!status.is_ok()) return status;
    segment_end_ = data_.segment_end(next_segment_);
    reader_ = BitReader(data_.bytes + data_.segment_begin(next_segment_));
    ++next_segment_;
    is_in_segment_ = true;
    std::memset(predictions_, 0, sizeof(predictions_));
    mcus_left_in_segment_ = std::min(restart_interval_, mcus_left_);
    return Status::ok();
}

// Passes over the segments that lie in the next `count` MCUs as a whole, but never over the last one of the scan.
Status EntropyScan::skip_segments(std::uint32_t count, std::uint32_t* skipped) noexcept {
    *skipped = 0;
    const std::uint32_t segments = std::min(count, mcus_left_ - 1) / restart_interval_;
    if (segments == 0) return Status::ok();
    const Status status = finish();
    is_in_segment_ = false;
    next_segment_ += segments;
    *skipped = segments * restart_interval_;
    mcus_left_ -= *skipped;
    return status;
}

template <bool kIsKept>
Status EntropyScan::run(std::uint32_t count) noexcept {
    std::uint32_t first = 0;
    while (first < count) {
        if (mcus_left_in_segment_ == 0) {
            std::uint32_t skipped = 0;
            Status status = kIsKept ? Status::ok() : skip_segments(count - first, &skipped);
            first += skipped;
            if (first == count) return status;
            if (status.is_ok()) status = start_segment();
            if (!status.is_ok()) return status;
        }
        const std::uint32_t part = std::min(count - first, mcus_left_in_segment_);
        if (!run_mcus<kIsKept>(first, part)) return irregular("a code that no table has, or a block too long");
        first += part;
        mcus_left_ -= part;
        mcus_left_in_segment_ -= part;
    }
    return Status::ok();
}

// Note [two compilations]
// The loop is shifts by variable amounts, which BMI2 does in one instruction each, without the flags. It is plain C++,
// compiled twice by being inlined into two functions; nothing in it may be left out of line.
template <bool kIsKept>
FASTLOAD_ALWAYS_INLINE bool EntropyScan::run_mcus_inline(std::uint32_t first, std::uint32_t count) noexcept {
    BitReader reader = reader_;
    const std::uint8_t* const limit = data_.bytes + data_.size + sizeof(std::uint64_t);
    std::int16_t* const block = block_;
    for (std::uint32_t mcu = first; mcu < first + count; ++mcu) {
        for (int b = 0; b < block_count_; ++b) {
            const ScanBlock& plan = blocks_[b];
            if (!decode_dc(reader, *plan.dc, &predictions_[plan.prediction])) return false;
            const int end = decode_ac<kIsKept>(reader, *plan.ac, block);
            if (end == kBadBlock) return false;
            if (!kIsKept) continue;
            block[0] = static_cast<std::int16_t>(predictions_[plan.prediction]);
            std::uint8_t* const output = plan.output + mcu * plan.mcu_stride_bytes;
            if (end == kDcOnly) {
                fill_from_dc(block[0], plan.quantization[0], output);
            } else {
                inverse_dct_(block, plan.quantization, output);
            }
        }
        // See Note [padding]: beyond this point a further MCU might read outside.
        if (reader.next > limit) return false;
    }
    reader_ = reader;
    return true;
}

#if FASTLOAD_HAS_X86_KERNELS
FASTLOAD_BEGIN_TARGET("bmi,bmi2")
bool EntropyScan::decode_mcus_bmi2(std::uint32_t first, std::uint32_t count) noexcept {
    return run_mcus_inline<true>(first, count);
}
bool EntropyScan::walk_mcus_bmi2(std::uint32_t count) noexcept { return run_mcus_inline<false>(0, count); }
FASTLOAD_END_TARGET
#else
bool EntropyScan::decode_mcus_bmi2(std::uint32_t, std::uint32_t) noexcept { return false; }
bool EntropyScan::walk_mcus_bmi2(std::uint32_t) noexcept { return false; }
#endif

template <bool kIsKept>
bool EntropyScan::run_mcus(std::uint32_t first, std::uint32_t count) noexcept {
    if (has_bmi2_) return kIsKept ? decode_mcus_bmi2(first, count) : walk_mcus_bmi2(count);
    return run_mcus_inline<kIsKept>(first, count);
}

template Status EntropyScan::run<false>(std::uint32_t count) noexcept;
template Status EntropyScan::run<true>(std::uint32_t count) noexcept;

}  // namespace fastload::jpeg

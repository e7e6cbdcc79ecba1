#include "codec/jpeg/entropy_index.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

namespace fastload::jpeg {
namespace {

// Note [packed index]
// u8 revision, u8 level, u8 components, u32 bytes of the scan without stuffing, u32 MCUs, u32 rows of MCUs known, all
// little endian; a parameter for each field of a checkpoint, u8: position, then the predictions. Behind them, bit by
// bit from the highest on, each checkpoint as what its fields have more than those of the one before, of predictions in
// zigzag. A number n of a field with parameter k is a Rice code: n >> k zeros, a one, and the k low bits; or, where
// that has kEscape zeros, so many, and n in kRawBits. The revision rises with any change of what a checkpoint means.
constexpr std::uint8_t kRevision = 1;
constexpr int kMaxFields = 1 + kMaxComponents;
constexpr int kEscape = 20;
constexpr int kRawBits = 36;  // of positions in data of less than 4 GiB
constexpr int kMaxParameter = 31;
// What one look at the bits gives at least.
constexpr int kFetchedBits = 57;
static_assert(kEscape + 1 + kMaxParameter <= kFetchedBits && kRawBits <= kFetchedBits);
// With 7 that wait for a byte to be full, less than 64.
constexpr int kPutBits = 56;
static_assert(kEscape + kMaxParameter <= kPutBits && kRawBits <= kPutBits);

static_assert(std::is_trivially_copyable_v<Checkpoint>);

// What a checkpoint has more than the one before it.
struct Step {
    std::uint64_t fields[kMaxFields] = {};
};

std::uint64_t zigzag(std::int32_t value) {
    return (static_cast<std::uint32_t>(value) << 1) ^ static_cast<std::uint32_t>(value >> 31);
}

std::int64_t from_zigzag(std::uint64_t value) {
    return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
}

bool fits_int16(std::int64_t value) {
    return value >= std::numeric_limits<std::int16_t>::min() && value <= std::numeric_limits<std::int16_t>::max();
}

Step step_between(const Checkpoint& before, const Checkpoint& checkpoint) {
    Step step;
    step.fields[0] = checkpoint.position_bits - before.position_bits;
    for (int i = 0; i < kMaxComponents; ++i) {
        step.fields[1 + i] = zigzag(checkpoint.predictions[i] - before.predictions[i]);
    }
    return step;
}

// False where that leads to no checkpoint of data that end at `end_bits`.
bool go_on(const Step& step, std::uint64_t end_bits, Checkpoint* checkpoint) {
    checkpoint->position_bits += step.fields[0];
    if (step.fields[0] == 0 || checkpoint->position_bits > end_bits) return false;
    for (int i = 0; i < kMaxComponents; ++i) {
        const std::int64_t prediction = checkpoint->predictions[i] + from_zigzag(step.fields[1 + i]);
        if (!fits_int16(prediction)) return false;
        checkpoint->predictions[i] = static_cast<std::int16_t>(prediction);
    }
    return true;
}

class PackedWriter {
  public:
    explicit PackedWriter(Span<std::uint8_t> bytes) noexcept : bytes_(bytes) {}

    void put(std::uint8_t byte) noexcept {
        if (size_ < bytes_.size()) bytes_[size_] = byte;
        ++size_;
    }
    void put_u32(std::uint32_t value) noexcept {
        for (int shift = 0; shift < 32; shift += 8) put(static_cast<std::uint8_t>(value >> shift));
    }
    // At most kPutBits, the highest first.
    void put_bits(std::uint64_t value, int count) noexcept {
        pending_ = pending_ << count | value;
        num_pending_ += count;
        const std::uint64_t from_the_top = (pending_ << 1) << (63 - num_pending_);
        std::uint8_t next[8];
        for (int i = 0; i < 8; ++i) next[i] = static_cast<std::uint8_t>(from_the_top >> (56 - 8 * i));
        const auto whole = static_cast<std::size_t>(num_pending_ / 8);
        if (size_ + sizeof(next) <= bytes_.size()) {
            std::memcpy(bytes_.data() + size_, next, sizeof(next));  // what is too much is written again
            size_ += whole;
        } else {
            for (std::size_t i = 0; i < whole; ++i) put(next[i]);
        }
        num_pending_ %= 8;
    }
    void put_rice(std::uint64_t value, int parameter) noexcept {
        const std::uint64_t zeros = value >> parameter;
        if (zeros >= kEscape) {
            put_bits(0, kEscape);
            return put_bits(value, kRawBits);
        }
        const std::uint64_t one = std::uint64_t{1} << parameter;
        put_bits(one | (value & (one - 1)), static_cast<int>(zeros) + 1 + parameter);
    }
    // 0 where it was too much.
    std::size_t finish() noexcept {
        if (num_pending_ > 0) put_bits(0, 8 - num_pending_);
        return size_ <= bytes_.size() ? size_ : 0;
    }

  private:
    const Span<std::uint8_t> bytes_;
    std::size_t size_ = 0;
    std::uint64_t pending_ = 0;
    int num_pending_ = 0;  // of its lowest bits, below 8 between two calls
};

// Gives zeros behind the end, and tells it.
class PackedReader {
  public:
    explicit PackedReader(ByteSpan bytes) noexcept : bytes_(bytes) {}

    std::uint8_t take() noexcept { return static_cast<std::uint8_t>(take_bits(8)); }
    std::uint32_t take_u32() noexcept {
        std::uint32_t value = 0;
        for (int shift = 0; shift < 32; shift += 8) value |= std::uint32_t{take()} << shift;
        return value;
    }
    std::uint64_t take_rice(int parameter) noexcept {
        const std::uint64_t bits = fetch();
        const int zeros = bits == 0 ? kEscape : __builtin_clzll(bits);
        if (zeros >= kEscape) {
            at_bits_ += kEscape;
            return take_bits(kRawBits);
        }
        at_bits_ += static_cast<std::size_t>(zeros + 1 + parameter);
        const std::uint64_t low = bits << (zeros + 1);
        return static_cast<std::uint64_t>(zeros) << parameter | (low >> 1) >> (63 - parameter);
    }
    bool is_right() const noexcept { return at_bits_ <= bytes_.size() * 8; }
    // Nothing but the zeros that fill the last byte is left.
    bool is_at_end() const noexcept { return is_right() && bytes_.size() * 8 - at_bits_ < 8 && fetch() == 0; }

  private:
    std::uint64_t take_bits(int count) noexcept {
        const std::uint64_t bits = fetch() >> (64 - count);
        at_bits_ += static_cast<std::size_t>(count);
        return bits;
    }
    // The next bits from the top on, kFetchedBits at least.
    std::uint64_t fetch() const noexcept {
        const std::size_t at = std::min(at_bits_ / 8, bytes_.size());
        const std::size_t left = bytes_.size() - at;
        std::uint8_t next[8];
        if (left >= sizeof(next)) {
            std::memcpy(next, bytes_.data() + at, sizeof(next));
        } else {
            for (std::size_t i = 0; i < sizeof(next); ++i) next[i] = i < left ? bytes_[at + i] : 0;
        }
        std::uint64_t word = 0;
        for (const std::uint8_t byte : next) word = word << 8 | byte;
        return word << at_bits_ % 8;
    }

    const ByteSpan bytes_;
    std::size_t at_bits_ = 0;
};

// The parameter that makes the codes of numbers with this sum about as short as they can be.
int parameter_for(std::uint64_t sum, std::size_t count) {
    int parameter = 0;
    while (parameter < kMaxParameter && (count << (parameter + 1)) <= sum) ++parameter;
    return parameter;
}

}  // namespace

bool operator==(const Checkpoint& a, const Checkpoint& b) noexcept {
    return a.position_bits == b.position_bits &&
           std::equal(a.predictions, a.predictions + kMaxComponents, b.predictions);
}

CheckpointRule::CheckpointRule(const ScanShape& shape, IndexLevel level) noexcept
    : mcus_wide_(shape.mcus_wide), mcus_high_(shape.mcus_high) {
    if (level == IndexLevel::kRows) return;
    step_ = std::max(std::uint32_t{1}, kBlocksBetween / static_cast<std::uint32_t>(shape.blocks_per_mcu));
    // At columns step, 2 * step, ... below half of the width.
    per_row_ = 1 + (mcus_wide_ - 1) / 2 / step_;
}

std::size_t CheckpointRule::count_through(std::uint32_t mcu) const noexcept {
    const std::uint32_t column = mcu % mcus_wide_;
    return count_in_rows(mcu / mcus_wide_) + std::min(column / step_, per_row_ - 1);
}

CheckpointRule::Place CheckpointRule::place(std::size_t i) const noexcept {
    const std::uint32_t row = rows_of(i);
    return {row * mcus_wide_, static_cast<std::uint32_t>(i - count_in_rows(row)) + 1};
}

void CheckpointRule::advance(Place* place) const noexcept {
    if (place->number++ < per_row_) return;
    *place = {place->row_begin + mcus_wide_, 1};
}

Status EntropyIndex::begin(const ScanShape& shape, IndexLevel level) noexcept {
    const CheckpointRule rule(shape, level);
    if (const Status status = buffer_.reserve(rule.count() * sizeof(Checkpoint)); !status.is_ok()) return status;
    shape_ = shape;
    level_ = level;
    rule_ = rule;
    size_ = 0;
    return Status::ok();
}

bool EntropyIndex::unpack(const ScanShape& shape, ByteSpan packed) noexcept {
    PackedReader reader(packed);
    const std::uint8_t revision = reader.take();
    const auto level = static_cast<IndexLevel>(reader.take());
    const std::uint8_t components = reader.take();
    const std::uint32_t data_bytes = reader.take_u32();
    const std::uint32_t mcus = reader.take_u32();
    const std::uint32_t rows = reader.take_u32();
    if (!reader.is_right() || revision != kRevision || components != shape.component_count ||
        (level != IndexLevel::kRows && level != IndexLevel::kDense) || mcus != shape.mcu_count() ||
        rows > shape.mcus_high) {
        return false;
    }
    if (!begin(shape, level).is_ok()) return false;
    data_bytes_ = data_bytes;
    int parameters[kMaxFields] = {};
    for (int field = 0; field <= components; ++field) parameters[field] = std::min<int>(reader.take(), kMaxParameter);
    const std::size_t count = rule_.count_in_rows(rows);
    Checkpoint checkpoint;
    for (std::size_t i = 0; i < count; ++i) {
        Step step;
        for (int field = 0; field <= components; ++field) step.fields[field] = reader.take_rice(parameters[field]);
        if (!reader.is_right() || !go_on(step, std::uint64_t{data_bytes} * 8, &checkpoint)) {
            forget();
            return false;
        }
        append(checkpoint);
    }
    if (!reader.is_at_end()) forget();
    return reader.is_at_end();
}

std::size_t EntropyIndex::pack(Span<std::uint8_t> packed) const noexcept {
    if (data_bytes_ > std::numeric_limits<std::uint32_t>::max()) return 0;
    PackedWriter writer(packed);
    writer.put(kRevision);
    writer.put(static_cast<std::uint8_t>(level_));
    writer.put(static_cast<std::uint8_t>(shape_.component_count));
    writer.put_u32(static_cast<std::uint32_t>(data_bytes_));
    writer.put_u32(shape_.mcu_count());
    writer.put_u32(rows_known());
    const std::size_t count = rule_.count_in_rows(rows_known());
    std::uint64_t sums[kMaxFields] = {};
    for (std::size_t i = 0; i < count; ++i) {
        const Step step = step_between(i == 0 ? Checkpoint{} : (*this)[i - 1], (*this)[i]);
        for (int field = 0; field < kMaxFields; ++field) sums[field] += step.fields[field];
    }
    int parameters[kMaxFields] = {};
    for (int field = 0; field <= shape_.component_count; ++field) {
        parameters[field] = parameter_for(sums[field], count);
        writer.put(static_cast<std::uint8_t>(parameters[field]));
    }
    for (std::size_t i = 0; i < count; ++i) {
        const Step step = step_between(i == 0 ? Checkpoint{} : (*this)[i - 1], (*this)[i]);
        for (int field = 0; field <= shape_.component_count; ++field) {
            writer.put_rice(step.fields[field], parameters[field]);
        }
    }
    return writer.finish();
}

bool EntropyIndex::accepts(std::size_t data_bytes) noexcept {
    if (size_ == 0) data_bytes_ = data_bytes;
    return data_bytes_ == data_bytes;
}

}  // namespace fastload::jpeg

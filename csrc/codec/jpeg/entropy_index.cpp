#include "codec/jpeg/entropy_index.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

namespace fastload::jpeg {
namespace {

// Note [packed index]
// u8 revision, u8 level, u8 components, u32 bytes of the scan without stuffing, u32 MCUs, u32 rows of MCUs known, all
// little endian; a u8 parameter for each field of a checkpoint: position, then the predictions. Then follow the
// checkpoints, bit by bit from the highest on: for each field, in zigzag, its difference from the expected value. A
// number n of a field with parameter k is a Rice code: n >> k zeros, a one, and the k low bits. If that would begin
// with kEscape zeros or more, the code is kEscape zeros and n in kRawBits. The revision rises with any change of a
// checkpoint's meaning.
//
// Images change less from one row of MCUs to the next than from one stop to the next. So the expected values at a row's
// end are the predictions at the end of the row above, and as many bits for the row as for the row above. At a stop
// they are the predictions of the same stop in the last row that had it, and as many bits since the previous checkpoint
// as there. If there is nothing above, the expected values are those at the previous checkpoint.
constexpr std::uint8_t kRevision = 2;
constexpr int kMaxFields = 1 + kMaxComponents;
constexpr int kEscape = 20;
constexpr int kRawBits = 38;  // of differences of positions in data of less than 4 GiB
constexpr int kMaxParameter = 31;
// The least number of bits that one look gives.
constexpr int kFetchedBits = 57;
static_assert(kEscape + 1 + kMaxParameter <= kFetchedBits && kRawBits <= kFetchedBits);
// The most bits that fit besides the up to 7 that wait for a full byte.
constexpr int kPutBits = 56;
static_assert(kEscape + kMaxParameter <= kPutBits && kRawBits <= kPutBits);

// See Note [stops]. At the level kDense a row has one stop for this many of its blocks. At the level kRows one of this
// many rows has a stop, if the stop's share of the width is an MCU or more.
constexpr std::uint32_t kBlocksForStop = 40;
constexpr std::uint32_t kRowsBetweenStops = 3;
constexpr std::uint32_t kMinWideForStop = 7;

static_assert(std::is_trivially_copyable_v<Checkpoint>);

// The differences of a checkpoint from an expected one, in zigzag.
struct Step {
    std::uint64_t fields[kMaxFields] = {};
};

std::uint64_t zigzag(std::int64_t value) {
    return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}

std::int64_t from_zigzag(std::uint64_t value) {
    return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
}

bool fits_int16(std::int64_t value) {
    return value >= std::numeric_limits<std::int16_t>::min() && value <= std::numeric_limits<std::int16_t>::max();
}

Step step_between(const Checkpoint& expected, const Checkpoint& checkpoint) {
    Step step;
    step.fields[0] = zigzag(static_cast<std::int64_t>(checkpoint.position_bits - expected.position_bits));
    for (int i = 0; i < kMaxComponents; ++i) {
        step.fields[1 + i] = zigzag(checkpoint.predictions[i] - expected.predictions[i]);
    }
    return step;
}

// False if that gives no checkpoint after `begin_bits` in data that end at `end_bits`.
bool go_on(const Step& step, std::uint64_t begin_bits, std::uint64_t end_bits, Checkpoint* checkpoint) {
    checkpoint->position_bits += static_cast<std::uint64_t>(from_zigzag(step.fields[0]));
    if (checkpoint->position_bits <= begin_bits || checkpoint->position_bits > end_bits) return false;
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
    // Appends at most kPutBits, the highest first.
    void put_bits(std::uint64_t value, int count) noexcept {
        if (num_pending_ + count > kMaxPending) write_whole_bytes();
        pending_ = pending_ << count | value;
        num_pending_ += count;
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
    // The size in bytes, or 0 if it did not fit.
    std::size_t finish() noexcept {
        write_whole_bytes();
        if (num_pending_ > 0) put_bits(0, 8 - num_pending_);
        write_whole_bytes();
        return size_ <= bytes_.size() ? size_ : 0;
    }

  private:
    static constexpr int kMaxPending = 63;

    void write_whole_bytes() noexcept {
        const std::uint64_t from_the_top = (pending_ << 1) << (kMaxPending - num_pending_);
        std::uint8_t next[8];
        for (int i = 0; i < 8; ++i) next[i] = static_cast<std::uint8_t>(from_the_top >> (56 - 8 * i));
        const auto whole = static_cast<std::size_t>(num_pending_ / 8);
        if (size_ + sizeof(next) <= bytes_.size()) {
            std::memcpy(bytes_.data() + size_, next, sizeof(next));  // the surplus bytes are written again
            size_ += whole;
        } else {
            for (std::size_t i = 0; i < whole; ++i) put(next[i]);
        }
        num_pending_ %= 8;
    }

    const Span<std::uint8_t> bytes_;
    std::size_t size_ = 0;
    std::uint64_t pending_ = 0;
    int num_pending_ = 0;  // number of its low bits that are pending
};

// Returns zeros after the end, and reports it.
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
        int length = code_length(parameter);
        if (length > num_fetched_) {
            fetch();
            length = code_length(parameter);
        }
        const int zeros = length - 1 - parameter;
        if (zeros >= kEscape) {
            skip(kEscape);
            return take_bits(kRawBits);
        }
        const std::uint64_t low = fetched_ << (zeros + 1);
        skip(length);
        return static_cast<std::uint64_t>(zeros) << parameter | (low >> 1) >> (63 - parameter);
    }
    // Makes the next kFetchedBits available.
    void fetch() noexcept {
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
        fetched_ = word << at_bits_ % 8;
        num_fetched_ = 64 - static_cast<int>(at_bits_ % 8);
    }
    bool is_right() const noexcept { return at_bits_ <= bytes_.size() * 8; }
    // True if only the zeros that fill the last byte are left.
    bool is_at_end() noexcept {
        fetch();
        return is_right() && bytes_.size() * 8 - at_bits_ < 8 && fetched_ == 0;
    }

  private:
    // The length of the next code, as far as the fetched bits show it.
    int code_length(int parameter) const noexcept {
        const int zeros = fetched_ == 0 ? 64 : __builtin_clzll(fetched_);
        return zeros + 1 + parameter;
    }
    std::uint64_t take_bits(int count) noexcept {
        fetch();
        const std::uint64_t bits = fetched_ >> (64 - count);
        skip(count);
        return bits;
    }
    void skip(int count) noexcept {
        fetched_ <<= count;
        num_fetched_ -= count;
        at_bits_ += static_cast<std::size_t>(count);
    }

    const ByteSpan bytes_;
    std::size_t at_bits_ = 0;
    std::uint64_t fetched_ = 0;  // the next bits from the top on; at least kFetchedBits after fetch()
    int num_fetched_ = 0;
};

// The parameter that makes the codes of numbers with this sum about as short as possible.
int parameter_for(std::uint64_t sum, std::size_t count) {
    int parameter = 0;
    while (parameter < kMaxParameter && (count << (parameter + 1)) <= sum) ++parameter;
    return parameter;
}

std::uint64_t quotient_up(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

}  // namespace

bool operator==(const Checkpoint& a, const Checkpoint& b) noexcept {
    return a.position_bits == b.position_bits &&
           std::equal(a.predictions, a.predictions + kMaxComponents, b.predictions);
}

CheckpointRule::CheckpointRule(const ScanShape& shape, IndexLevel level) noexcept
    : mcus_wide_(shape.mcus_wide), mcus_high_(shape.mcus_high) {
    // The steps of t, as a fraction.
    std::uint64_t step = 1;
    std::uint64_t whole = 1;
    if (level == IndexLevel::kDense) {
        // Limited so that at least one MCU is left between the closest two of them.
        const std::uint32_t most = std::max(mcus_wide_ * 5 / 16, 1U) - 1;
        stops_ = std::min(mcus_wide_ * static_cast<std::uint32_t>(shape.blocks_per_mcu) / kBlocksForStop, most);
        whole = std::uint64_t{stops_} + 1;
    } else {
        stops_ = mcus_wide_ < kMinWideForStop ? 0 : 1;
        row_step_ = kRowsBetweenStops;
        step = 2;
        whole = 5;
    }
    const std::uint64_t wide = std::uint64_t{mcus_wide_} << kColumnShift;
    linear_ = quotient_up(wide * 5 * step, 16 * whole);
    quadratic_ = quotient_up(wide * 4 * step * step, 16 * whole * whole);
}

std::uint32_t CheckpointRule::rows_of(std::size_t checkpoints) const noexcept {
    const std::size_t groups = checkpoints / count_in_group();
    const std::size_t rest = checkpoints % count_in_group();
    return static_cast<std::uint32_t>(groups * row_step_ + (rest > stops_ ? rest - stops_ : 0));
}

std::size_t CheckpointRule::count_through(std::uint32_t mcu) const noexcept {
    const std::uint32_t row = mcu / mcus_wide_;
    std::size_t count = count_in_rows(row);
    if (row % row_step_ != 0) return count;
    for (std::uint32_t stop = 1; stop <= stops_ && column(stop) <= mcu % mcus_wide_; ++stop) ++count;
    return count;
}

CheckpointRule::Place CheckpointRule::place(std::size_t i) const noexcept {
    const std::uint32_t row = rows_of(i);
    const std::uint32_t group_row = row % row_step_;
    const std::uint32_t above = (group_row == 0 ? row_step_ : group_row) - 1;
    return {row * mcus_wide_, static_cast<std::uint32_t>(i - count_in_rows(row)) + 1, last_in(group_row),
            row == 0 ? 0 : last_in(above), group_row};
}

void CheckpointRule::advance(Place* place) const noexcept {
    if (place->number++ < place->last) return;
    const std::uint32_t group_row = place->group_row + 1 == row_step_ ? 0 : place->group_row + 1;
    *place = {place->row_begin + mcus_wide_, 1, last_in(group_row), place->last, group_row};
}

Status EntropyIndex::begin(const ScanShape& shape, IndexLevel level) noexcept {
    const CheckpointRule rule(shape, level);
    const std::size_t bytes = (1 + rule.count()) * sizeof(Checkpoint);
    if (const Status status = buffer_.reserve(bytes); !status.is_ok()) return status;
    checkpoints()[-1] = Checkpoint{};
    shape_ = shape;
    level_ = level;
    rule_ = rule;
    size_ = 0;
    return Status::ok();
}

// The expected checkpoint i, given the ones before it: see Note [packed index].
inline Checkpoint EntropyIndex::expected(std::size_t i, const CheckpointRule::Place& place) const noexcept {
    const Checkpoint* const here = checkpoints() + i;
    const bool is_end = place.number == place.last;
    if (is_end ? place.last_above == 0 : i < rule_.count_in_group()) return here[-1];
    const std::size_t to_above = is_end ? place.last : rule_.count_in_group();
    const Checkpoint* const above = here - to_above;
    const Checkpoint* const above_begin = is_end ? above - place.last_above : above - 1;
    const Checkpoint* const begin = is_end ? above : here - 1;
    Checkpoint checkpoint = *above;
    checkpoint.position_bits = begin->position_bits + (above->position_bits - above_begin->position_bits);
    return checkpoint;
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
    CheckpointRule::Place place = rule_.place(0);
    for (std::size_t i = 0; i < count; ++i, rule_.advance(&place)) {
        reader.fetch();  // enough for most checkpoints as a whole
        Step step;
        for (int field = 0; field <= components; ++field) step.fields[field] = reader.take_rice(parameters[field]);
        Checkpoint checkpoint = expected(i, place);
        const std::uint64_t begin_bits = (checkpoints() + i)[-1].position_bits;
        if (!reader.is_right() || !go_on(step, begin_bits, std::uint64_t{data_bytes} * 8, &checkpoint)) {
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
    CheckpointRule::Place place = rule_.place(0);
    for (std::size_t i = 0; i < count; ++i, rule_.advance(&place)) {
        const Step step = step_between(expected(i, place), (*this)[i]);
        for (int field = 0; field < kMaxFields; ++field) sums[field] += step.fields[field];
    }
    int parameters[kMaxFields] = {};
    for (int field = 0; field <= shape_.component_count; ++field) {
        parameters[field] = parameter_for(sums[field], count);
        writer.put(static_cast<std::uint8_t>(parameters[field]));
    }
    place = rule_.place(0);
    for (std::size_t i = 0; i < count; ++i, rule_.advance(&place)) {
        const Step step = step_between(expected(i, place), (*this)[i]);
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

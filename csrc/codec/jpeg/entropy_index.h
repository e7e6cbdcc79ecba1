// An index of positions inside the entropy-coded data of a scan where decoding can begin.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/aligned_buffer.h"
#include "base/span.h"
#include "base/status.h"
#include "codec/jpeg/markers.h"

namespace fastload::jpeg {

// The metadata of a scan without restart markers that determine where its checkpoints lie.
struct ScanShape {
    std::uint32_t mcus_wide = 0;
    std::uint32_t mcus_high = 0;
    int blocks_per_mcu = 1;
    int component_count = 1;

    std::uint32_t mcu_count() const noexcept { return mcus_wide * mcus_high; }
};

// The state of the entropy decoder before an MCU.
struct Checkpoint {
    std::uint64_t position_bits = 0;                // in the data without stuffing
    std::int16_t predictions[kMaxComponents] = {};  // of the scan's components; 0 after the last one
};
bool operator==(const Checkpoint& a, const Checkpoint& b) noexcept;

// Both levels have a checkpoint before each row of MCUs except the first, and one at the end of the scan.
enum class IndexLevel : std::uint8_t {
    kRows = 1,   // and one inside of each third row
    kDense = 2,  // and some in the left half of each row
};

// Note [stops]
// Checkpoints inside of a row are stops. They shorten the walk from the start of the row to a window's left edge. The
// right edge needs none, because the next row begins with a checkpoint. Left edges of random crops get rarer to the
// right, and so do stops: they are at the shares (5 t + 4 t^2) / 16 of the width, for t in even steps from 0 to 1; at
// the level kRows only for t = 2 / 5. With these stops, simulated crops by RandomResizedCrop's default arguments walk
// few MCUs, and the left edge of a centre crop also lies after a stop.

// Numbers checkpoints in stream order: first the stops inside of a row, then the checkpoint at its end.
class CheckpointRule {
  public:
    CheckpointRule() = default;
    CheckpointRule(const ScanShape& shape, IndexLevel level) noexcept;

    std::size_t count() const noexcept { return count_in_rows(mcus_high_); }
    std::size_t count_in_rows(std::uint32_t rows) const noexcept {
        return rows + std::size_t{stops_} * ((rows + row_step_ - 1) / row_step_);
    }
    std::uint32_t rows_of(std::size_t checkpoints) const noexcept;
    // The number of checkpoints at this MCU or before it.
    std::size_t count_through(std::uint32_t mcu) const noexcept;

    // A position for iterating over checkpoints without divisions, which would take most of the time.
    struct Place {
        std::uint32_t row_begin = 0;   // the row's first MCU
        std::uint32_t number = 1;      // of the checkpoint, in the row
        std::uint32_t last = 1;        // the number of the checkpoint at the row's end
        std::uint32_t last_above = 0;  // the same for the row before; 0 for the first row
        std::uint32_t group_row = 0;   // the number of the row in its group: from a row with stops up to the next one
    };
    Place place(std::size_t i) const noexcept;
    void advance(Place* place) const noexcept;
    // The number of the MCU that follows the checkpoint; the number of MCUs for the last checkpoint.
    std::uint32_t mcu(const Place& place) const noexcept {
        return place.row_begin + (place.number == place.last ? mcus_wide_ : column(place.number));
    }
    std::uint32_t mcu(std::size_t i) const noexcept { return mcu(place(i)); }
    // The number of checkpoints in a group of rows, from one with stops up to the next.
    std::size_t count_in_group() const noexcept { return std::size_t{row_step_} + stops_; }

  private:
    std::uint32_t column(std::uint32_t stop) const noexcept {
        return static_cast<std::uint32_t>((linear_ + quadratic_ * stop) * stop >> kColumnShift);
    }
    std::uint32_t last_in(std::uint32_t group_row) const noexcept { return group_row == 0 ? stops_ + 1 : 1; }

    static constexpr int kColumnShift = 32;

    std::uint32_t mcus_wide_ = 1;
    std::uint32_t mcus_high_ = 0;
    std::uint32_t stops_ = 0;     // in a row that has stops
    std::uint32_t row_step_ = 1;  // from one row with stops to the next
    std::uint64_t linear_ = 0;    // the linear term of the column as a polynomial of the stop's number
    std::uint64_t quadratic_ = 0;
};

// The known part of a scan's index: its first checkpoints, up to the last row of MCUs that was read to its end without
// a fault. Not thread-safe; owns its memory.
class EntropyIndex {
  public:
    // Starts an empty index for a scan of this shape. kOutOfMemory, with nothing changed, if there is no memory.
    Status begin(const ScanShape& shape, IndexLevel level) noexcept;

    // Reads the output of pack() for a scan of this shape. Returns false for anything else, or without memory; the
    // index is then empty as after begin(), or unchanged. Whatever the bytes are, positions rise and lie in the data
    // they name.
    bool unpack(const ScanShape& shape, ByteSpan packed) noexcept;
    // Packs the rows that are completely known. Returns the number of bytes written; 0 if they do not fit.
    std::size_t pack(Span<std::uint8_t> packed) const noexcept;

    // An empty index adopts the data of this scan; any other tells whether the data may be its own.
    bool accepts(std::size_t data_bytes) noexcept;

    // Meaningless while the index is empty.
    std::size_t data_bytes() const noexcept { return data_bytes_; }
    IndexLevel level() const noexcept { return level_; }
    const ScanShape& shape() const noexcept { return shape_; }
    const CheckpointRule& rule() const noexcept { return rule_; }
    std::size_t size() const noexcept { return size_; }
    const Checkpoint& operator[](std::size_t i) const noexcept { return checkpoints()[i]; }
    std::uint32_t rows_known() const noexcept { return rule_.rows_of(size_); }
    bool is_complete() const noexcept { return size_ == rule_.count(); }
    // Whether so many new rows are worth a new record: at least 1 / 8 of all rows.
    bool is_worth_a_record(std::uint32_t new_rows) const noexcept { return new_rows * 8 >= shape_.mcus_high; }

    // Adds the next checkpoint. The caller has read all MCUs before it.
    void append(const Checkpoint& checkpoint) noexcept { checkpoints()[size_++] = checkpoint; }
    void forget() noexcept { size_ = 0; }

    std::size_t scratch_bytes() const noexcept { return buffer_.capacity(); }
    void release_scratch(ScratchRule rule) noexcept { buffer_.release(rule); }

  private:
    // The checkpoints after the one at the scan's start.
    Checkpoint* checkpoints() const noexcept { return reinterpret_cast<Checkpoint*>(buffer_.data()) + 1; }
    Checkpoint expected(std::size_t i, const CheckpointRule::Place& place) const noexcept;

    ScanShape shape_;
    IndexLevel level_ = IndexLevel::kRows;
    CheckpointRule rule_;
    std::size_t data_bytes_ = 0;  // of the scan without stuffing; meaningless while the size is 0
    std::size_t size_ = 0;
    AlignedBuffer buffer_;  // room for all possible checkpoints, and one before them
};

}  // namespace fastload::jpeg

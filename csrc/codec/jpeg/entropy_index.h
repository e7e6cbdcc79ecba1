// Places inside the entropy-coded data of a scan where decoding can begin: which ones there are, and what is known of
// them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/aligned_buffer.h"
#include "base/span.h"
#include "base/status.h"
#include "codec/jpeg/markers.h"

namespace fastload::jpeg {

// What of a scan without restart markers says where its checkpoints lie.
struct ScanShape {
    std::uint32_t mcus_wide = 0;
    std::uint32_t mcus_high = 0;
    int blocks_per_mcu = 1;
    int component_count = 1;

    std::uint32_t mcu_count() const noexcept { return mcus_wide * mcus_high; }
};

// The state of the entropy decoder in front of an MCU.
struct Checkpoint {
    std::uint64_t position_bits = 0;                // in the data without stuffing
    std::int16_t predictions[kMaxComponents] = {};  // of the scan's components; 0 behind them
};
bool operator==(const Checkpoint& a, const Checkpoint& b) noexcept;

// Both have one in front of each row of MCUs but the first, and one at the end of the scan.
enum class IndexLevel : std::uint8_t {
    kRows = 1,   // and one inside of each third row
    kDense = 2,  // and some in the left half of each row
};

// Note [stops]
// Checkpoints inside of a row are stops. They save the way from the row's begin to a window's left edge; its right edge
// needs none, since the next row begins with a checkpoint. The left edges of random crops are the rarer the further
// they lie to the right, and so are stops: at the shares (5 t + 4 t^2) / 16 of the width, for t in even steps from 0 to
// 1; at the level kRows for t = 2 / 5. Simulated crops by RandomResizedCrop's default arguments walk few MCUs with
// these, and the left edge of a centre crop lies behind a stop, too.

// Numbers checkpoints in stream order: those inside of a row, then the one at its end.
class CheckpointRule {
  public:
    CheckpointRule() = default;
    CheckpointRule(const ScanShape& shape, IndexLevel level) noexcept;

    std::size_t count() const noexcept { return count_in_rows(mcus_high_); }
    std::size_t count_in_rows(std::uint32_t rows) const noexcept {
        return rows + std::size_t{stops_} * ((rows + row_step_ - 1) / row_step_);
    }
    std::uint32_t rows_of(std::size_t checkpoints) const noexcept;
    // How many stand at this MCU or before it.
    std::size_t count_through(std::uint32_t mcu) const noexcept;

    // Where a checkpoint lies, for who goes through them: without divisions, which would take most of the time.
    struct Place {
        std::uint32_t row_begin = 0;   // the row's first MCU
        std::uint32_t number = 1;      // in the row
        std::uint32_t last = 1;        // the number of the one at the row's end
        std::uint32_t last_above = 0;  // the same of the row before; 0 for the first row
        std::uint32_t group_row = 0;   // the row's number in those from one with stops to the next
    };
    Place place(std::size_t i) const noexcept;
    void advance(Place* place) const noexcept;
    // The number of the MCU that the checkpoint stands in front of; that of MCUs for the last one.
    std::uint32_t mcu(const Place& place) const noexcept {
        return place.row_begin + (place.number == place.last ? mcus_wide_ : column(place.number));
    }
    std::uint32_t mcu(std::size_t i) const noexcept { return mcu(place(i)); }
    // Of rows from one with stops to the next.
    std::size_t count_in_group() const noexcept { return std::size_t{row_step_} + stops_; }

  private:
    std::uint32_t column(std::uint32_t stop) const noexcept {
        return static_cast<std::uint32_t>((linear_ + quadratic_ * stop) * stop >> kColumnShift);
    }
    std::uint32_t last_in(std::uint32_t group_row) const noexcept { return group_row == 0 ? stops_ + 1 : 1; }

    static constexpr int kColumnShift = 32;

    std::uint32_t mcus_wide_ = 1;
    std::uint32_t mcus_high_ = 0;
    std::uint32_t stops_ = 0;     // in a row that has some
    std::uint32_t row_step_ = 1;  // from one such row to the next
    std::uint64_t linear_ = 0;    // of the column as a polynomial of the stop's number
    std::uint64_t quadratic_ = 0;
};

// What has been found out about a scan: its first checkpoints, up to the last row of MCUs that was read to its end
// without a fault. Not thread-safe; owns its memory.
class EntropyIndex {
  public:
    // Knows nothing of a scan of this shape then. kOutOfMemory, with nothing changed.
    Status begin(const ScanShape& shape, IndexLevel level) noexcept;

    // Reads what pack() has written for a scan of this shape. False for anything else, or without memory; then it is as
    // after begin(), or unchanged. Whatever the bytes are, positions rise and lie in the data they name.
    bool unpack(const ScanShape& shape, ByteSpan packed) noexcept;
    // Of the rows that are known as a whole. Returns the number of bytes written; 0 where they do not fit.
    std::size_t pack(Span<std::uint8_t> packed) const noexcept;

    // Takes the data of the scan at hand for those of the index if it knows nothing yet, else tells whether they may
    // be.
    bool accepts(std::size_t data_bytes) noexcept;

    // Meaningless while it knows nothing.
    std::size_t data_bytes() const noexcept { return data_bytes_; }
    IndexLevel level() const noexcept { return level_; }
    const ScanShape& shape() const noexcept { return shape_; }
    const CheckpointRule& rule() const noexcept { return rule_; }
    std::size_t size() const noexcept { return size_; }
    const Checkpoint& operator[](std::size_t i) const noexcept { return checkpoints()[i]; }
    std::uint32_t rows_known() const noexcept { return rule_.rows_of(size_); }
    bool is_complete() const noexcept { return size_ == rule_.count(); }

    // The next one. The caller has read all MCUs before it.
    void append(const Checkpoint& checkpoint) noexcept { checkpoints()[size_++] = checkpoint; }
    void forget() noexcept { size_ = 0; }

    std::size_t scratch_bytes() const noexcept { return buffer_.capacity(); }
    void release_scratch(ScratchRule rule) noexcept { buffer_.release(rule); }

  private:
    // Behind that of the scan's begin.
    Checkpoint* checkpoints() const noexcept { return reinterpret_cast<Checkpoint*>(buffer_.data()) + 1; }
    Checkpoint expected(std::size_t i, const CheckpointRule::Place& place) const noexcept;

    ScanShape shape_;
    IndexLevel level_ = IndexLevel::kRows;
    CheckpointRule rule_;
    std::size_t data_bytes_ = 0;  // of the scan without stuffing; meaningless while the size is 0
    std::size_t size_ = 0;
    AlignedBuffer buffer_;  // of all checkpoints there can be, and one in front of them
};

}  // namespace fastload::jpeg

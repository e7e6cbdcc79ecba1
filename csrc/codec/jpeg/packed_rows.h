// The block rows of some MCU rows of a sequential file, packed as its scans bring the blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/span.h"
#include "base/status.h"
#include "codec/jpeg/markers.h"

namespace fastload::jpeg {

// A block row that is being packed: Note [packed blocks].
struct PackedRow {
    std::uint8_t* next = nullptr;     // where the next block goes; null after one that does not fit
    std::int32_t blocks_to_come = 0;  // blocks after them only fill up interleaved MCUs (T.81 A.2.4)
};

// Not thread-safe; owns its memory.
class PackedRows {
  public:
    // Makes room for `mcu_rows` of the frame's rows. kLimitExceeded if they could take more than `max_bytes`.
    Status begin(const Frame& frame, std::int32_t mcu_rows, std::uint64_t max_bytes) noexcept;

    // Begins a component's block row of this many blocks. Rows are counted from the first row in memory.
    PackedRow* restart(int component, std::int32_t block_row, std::int32_t blocks) noexcept;

    // The packed blocks of a row. kIrregular if a coefficient does not fit.
    Status find(int component, std::int32_t block_row, ByteSpan* packed) const noexcept;

    std::size_t scratch_bytes() const noexcept { return bytes_.capacity(); }
    void release_scratch(ScratchRule rule) noexcept { bytes_.release(rule); }

  private:
    struct Place {
        std::size_t first_row = 0;  // among all components' rows
        std::size_t begin = 0;      // in bytes_
        std::size_t row_bytes = 0;
    };
    std::size_t number_of(int component, std::int32_t block_row) const noexcept;
    std::uint8_t* begin_of(int component, std::int32_t block_row) const noexcept;

    AlignedBuffer bytes_;
    std::vector<PackedRow> rows_;
    Place places_[kMaxComponents];
};

}  // namespace fastload::jpeg

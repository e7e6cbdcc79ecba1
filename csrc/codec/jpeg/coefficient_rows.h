// The coefficients of some MCU rows of a sequential file, as its scans give them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/aligned_buffer.h"
#include "base/status.h"
#include "codec/jpeg/markers.h"

namespace fastload::jpeg {

// Blocks that only fill up interleaved MCUs (T.81 A.2.4) have a place here: scans bring them.
class CoefficientRows {
  public:
    // Makes room for `mcu_rows` of the frame's rows. kLimitExceeded where they would take more than `max_bytes`.
    Status begin(const Frame& frame, std::int32_t mcu_rows, std::uint64_t max_bytes) noexcept;

    // Of a component's block, counted from the first of the rows: 64 values, 64-byte aligned. The block to the right
    // follows directly.
    std::int16_t* block(int component, std::int32_t block_column, std::int32_t block_row) const noexcept;

    std::size_t scratch_bytes() const noexcept { return blocks_.capacity(); }
    void release_scratch(ScratchRule rule) noexcept { blocks_.release(rule); }

  private:
    AlignedBuffer blocks_;
    std::size_t first_block_[kMaxComponents] = {};
    std::size_t blocks_wide_[kMaxComponents] = {};
};

}  // namespace fastload::jpeg

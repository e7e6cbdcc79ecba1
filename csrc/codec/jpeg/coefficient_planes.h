// The coefficients of a progressive file between its scans.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/aligned_buffer.h"
#include "base/status.h"
#include "codec/jpeg/markers.h"
#include "codec/jpeg/reconstruct.h"

namespace fastload::jpeg {

// Bit k: the coefficient at zigzag position k, of 1..63, is not zero.
using NonzeroMask = std::uint64_t;

// Note [history outside of the window]
// Values are kept only for the window's blocks. But a refinement scan has a bit for each coefficient that is not zero
// already (T.81 G.1.2.3), so to find the way through one, the positions of nonzero coefficients must be known for every
// block of the frame: 8 bytes a block instead of 128.
//
// Blocks that only pad an interleaved MCU (T.81 A.2.4) are not stored: their DC coefficients are skipped, no other scan
// has them, and no pixel depends on them.
class CoefficientPlanes {
  public:
    // Forgets everything. `frame` must live as long as the planes are used. kLimitExceeded if the coefficients would
    // take more than `max_bytes`.
    Status begin(const Frame& frame, const McuWindow& window, std::uint64_t max_bytes) noexcept;

    // Makes room for a component, all zero. Call once after begin(), before any other function for the component.
    Status reserve(int component) noexcept;

    // The coefficients of a block in the window: 64 values in zigzag order, 64-byte aligned. The block to the right
    // follows directly.
    std::int16_t* block(int component, std::int32_t block_column, std::int32_t block_row) const noexcept;

    // The masks of all blocks of the component, row by row, blocks_wide of them in a row.
    NonzeroMask* nonzero(int component) const noexcept;

    std::size_t scratch_bytes() const noexcept;
    void release_scratch(ScratchRule rule) noexcept;

  private:
    struct Plane {
        std::int32_t left = 0;  // of the window, in blocks
        std::int32_t top = 0;
        std::int32_t wide = 0;
        std::int32_t high = 0;
        std::size_t value_bytes = 0;
        std::size_t mask_bytes = 0;
    };
    Plane planes_[kMaxComponents];
    AlignedBuffer values_[kMaxComponents];
    AlignedBuffer masks_[kMaxComponents];
};

}  // namespace fastload::jpeg

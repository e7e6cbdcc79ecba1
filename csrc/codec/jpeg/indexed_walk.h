// Moves through the MCUs of a scan, with an index if there is one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "codec/jpeg/entropy_baseline.h"
#include "codec/jpeg/entropy_index.h"

namespace fastload::jpeg {

// Note [indexed verdict]
// Without an index every MCU up to the window's last row is decoded, and a fault in one is the file's. With an index,
// each of them is either decoded now or lies before a recorded checkpoint, which means it was decoded from the same
// bytes by the same code without a fault. So the index changes neither pixels nor verdict.
//
// Note [landing]
// An index of other data, or a damaged one, is detected: when decoding passes a checkpoint, position and predictions
// must equal it, and a jump never leads back. The exception is a checkpoint whose predictions are all shifted alike,
// from a file that differs in a few bytes above the window; the key and the check of a record guard against that. At
// the level kDense each row of a window passes at least one checkpoint after its jump: a row that ends without one is
// walked on to the next, so that no row's pixels rely on the record alone. At the level kRows that holds for the
// window's last row. After the last known checkpoint everything is decoded, and that checkpoint is landed on, too.

// Compares known checkpoints as the decoding of a scan passes them, and records new ones.
class IndexedWalk {
  public:
    // Walks a scan from its start. `index` may be null. An index that accepts the scan's data is used and, if
    // `is_recording`, receives the checkpoints passed after its end.
    IndexedWalk(EntropyScan& scan, EntropyIndex* index, bool is_recording) noexcept;

    // Moves on to MCU `mcu`, which must not come before the current one.
    Status walk_to(std::uint32_t mcu) noexcept;
    // Decodes the next `count` MCUs, in one row: see EntropyScan::decode.
    Status decode(std::uint32_t count) noexcept;
    // Skips the rest of the row, which ends before MCU `row_end`.
    Status leave_row(std::uint32_t row_end, bool is_last) noexcept;

    // True if a fault may be the index's.
    bool has_relied() const noexcept { return has_relied_; }

  private:
    Status run(std::uint32_t count, bool is_kept) noexcept;
    Status refuse() noexcept;
    bool make_checkpoint(Checkpoint* checkpoint) const noexcept;
    void pass_checkpoint() noexcept;
    void find_next_stop() noexcept;

    EntropyScan& scan_;
    EntropyIndex* const index_;
    bool is_recording_;
    bool has_relied_ = false;
    bool has_landed_ = true;                // a known checkpoint was passed since the last jump, or there was no jump
    bool is_wrong_ = false;                 // one of them differed
    std::size_t next_ = 0;                  // the number of the next checkpoint
    CheckpointRule::Place place_;           // of the next checkpoint
    std::uint32_t next_stop_ = UINT32_MAX;  // its MCU; UINT32_MAX if there is none
};

}  // namespace fastload::jpeg

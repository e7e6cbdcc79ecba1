// Moves through the MCUs of a scan, by an index where there is one.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "codec/jpeg/checkpoint_track.h"
#include "codec/jpeg/entropy_baseline.h"
#include "codec/jpeg/entropy_index.h"

namespace fastload::jpeg {

// Note [indexed verdict]
// Without an index every MCU up to the window's last row is decoded, and a fault in one is the file's. With an index
// each of them is either decoded now or lies before a checkpoint that was recorded, that is, was decoded from the same
// bytes by the same code without a fault. So the index changes neither pixels nor verdict.
//
// Note [landing]
// An index of other data, or a damaged one, shows itself: where decoding passes a checkpoint, position and predictions
// must equal it, and a jump never leads back. Only one whose predictions are all shifted alike does not, that of a file
// that differs in a few bytes above the window: against it stand the key and the check of a record. At the level kDense
// each row of a window passes at least one checkpoint behind its jump: a row that ends without one is walked to the
// next, so that no row's pixels are only on the record's word. At the level kRows that holds for the window's last row.
// Behind the last checkpoint that is known all is decoded, and that one is landed on, too.

class IndexedWalk {
  public:
    // Of a scan at its begin. `index` may be null; one that accepts the scan's data is used and, where `is_recording`,
    // learns what is passed behind its end.
    IndexedWalk(EntropyScan& scan, EntropyIndex* index, bool is_recording) noexcept;

    // On to MCU `mcu`, which does not lie behind.
    Status walk_to(std::uint32_t mcu) noexcept;
    // The next `count` MCUs, in one row: see EntropyScan::decode.
    Status decode(std::uint32_t count) noexcept;
    // Says that the rest of the row, which ends in front of MCU `row_end`, is not wanted.
    Status leave_row(std::uint32_t row_end, bool is_last) noexcept;

    IndexedWalk(const IndexedWalk&) = delete;  // the scan looks at it
    IndexedWalk& operator=(const IndexedWalk&) = delete;

    // Whether a fault may be the index's.
    bool has_relied() const noexcept { return has_relied_; }

  private:
    Status checked(Status status) noexcept;
    Status refuse() noexcept;

    EntropyScan& scan_;
    EntropyIndex* const index_;
    CheckpointTrack track_;
    bool has_relied_ = false;
};

}  // namespace fastload::jpeg

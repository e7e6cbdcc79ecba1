// Compares or records checkpoints as the decoding of a scan passes them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/jpeg/entropy_index.h"

namespace fastload::jpeg {

// Compares known checkpoints and adds new ones. Belongs to one scan; see Note [landing] in indexed_walk.h.
class CheckpointTrack {
  public:
    // `index` may be null: then there are no checkpoints. Adds to it only if `is_recording`.
    CheckpointTrack(EntropyIndex* index, bool is_recording) noexcept;

    // The MCU of the next checkpoint at which to call pass(); UINT32_MAX if there is none.
    std::uint32_t next_stop() const noexcept { return next_stop_; }
    // The number of the next checkpoint.
    std::size_t next() const noexcept { return next_; }

    // Call when the decoder has reached that MCU.
    void pass(std::uint64_t position_bits, const std::uint32_t* predictions) noexcept;
    // Call after a jump to checkpoint `target`.
    void jump_to(std::size_t target) noexcept;

    // True if a known checkpoint was passed since the last jump, or there was no jump.
    bool has_landed() const noexcept { return has_landed_; }
    // True if one of them differed.
    bool is_wrong() const noexcept { return is_wrong_; }

  private:
    bool make_checkpoint(std::uint64_t position_bits, const std::uint32_t* predictions,
                         Checkpoint* checkpoint) const noexcept;
    void find_next_stop() noexcept;

    EntropyIndex* const index_;
    bool is_recording_ = false;
    bool has_landed_ = true;
    bool is_wrong_ = false;
    std::size_t next_ = 0;
    CheckpointRule::Place place_;  // of the next checkpoint
    std::uint32_t next_stop_ = 0;
};

}  // namespace fastload::jpeg

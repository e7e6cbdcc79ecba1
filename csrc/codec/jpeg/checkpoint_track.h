// What happens where the decoding of a scan passes a checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/jpeg/entropy_index.h"

namespace fastload::jpeg {

// Compares what is known and adds what is not. One scan's; see Note [landing] in indexed_walk.h.
class CheckpointTrack {
  public:
    // `index` may be null: then there is nothing to pass. Adds to it only if `is_recording`.
    CheckpointTrack(EntropyIndex* index, bool is_recording) noexcept;

    // The MCU of the next checkpoint at which pass() is to be called; UINT32_MAX for none.
    std::uint32_t next_stop() const noexcept { return next_stop_; }
    // Which one comes next.
    std::size_t next() const noexcept { return next_; }

    // The decoder stands in front of that MCU.
    void pass(std::uint64_t position_bits, const std::uint32_t* predictions) noexcept;
    // It has jumped to checkpoint `target`.
    void jump_to(std::size_t target) noexcept;

    // Whether a known checkpoint was passed since the last jump, or there was none.
    bool has_landed() const noexcept { return has_landed_; }
    // Whether one of them was another.
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
    CheckpointRule::Place place_;  // of that
    std::uint32_t next_stop_ = 0;
};

}  // namespace fastload::jpeg

#include "codec/jpeg/checkpoint_track.h"

#include <limits>

#include "codec/jpeg/scan_data.h"

namespace fastload::jpeg {

CheckpointTrack::CheckpointTrack(EntropyIndex* index, bool is_recording) noexcept
    : index_(index), is_recording_(is_recording) {
    if (index_ != nullptr) place_ = index_->rule().place(0);
    find_next_stop();
}

void CheckpointTrack::find_next_stop() noexcept {
    const bool is_stop =
        index_ != nullptr && (next_ < index_->size() || (is_recording_ && next_ < index_->rule().count()));
    next_stop_ = is_stop ? index_->rule().mcu(place_) : std::numeric_limits<std::uint32_t>::max();
}

// False if decoding cannot resume there: the position is after the data, or no 8-bit file has such predictions.
bool CheckpointTrack::make_checkpoint(std::uint64_t position_bits, const std::uint32_t* predictions,
                                      Checkpoint* checkpoint) const noexcept {
    checkpoint->position_bits = position_bits;
    for (int i = 0; i < index_->shape().component_count; ++i) {
        const auto prediction = static_cast<std::int32_t>(predictions[i]);
        checkpoint->predictions[i] = static_cast<std::int16_t>(prediction);
        if (checkpoint->predictions[i] != prediction) return false;
    }
    const bool is_last = next_ + 1 == index_->rule().count();
    return segment_end_fault(position_bits, index_->data_bytes(), is_last) == nullptr;
}

void CheckpointTrack::pass(std::uint64_t position_bits, const std::uint32_t* predictions) noexcept {
    Checkpoint here;
    const bool is_right = make_checkpoint(position_bits, predictions, &here);
    if (next_ < index_->size()) {
        has_landed_ = is_right && here == (*index_)[next_];
        if (!has_landed_) is_wrong_ = true;
    } else if (is_right) {
        index_->append(here);
    } else {
        is_recording_ = false;
    }
    ++next_;
    index_->rule().advance(&place_);
    find_next_stop();
}

void CheckpointTrack::jump_to(std::size_t target) noexcept {
    next_ = target + 1;
    place_ = index_->rule().place(next_);
    has_landed_ = false;
    find_next_stop();
}

}  // namespace fastload::jpeg

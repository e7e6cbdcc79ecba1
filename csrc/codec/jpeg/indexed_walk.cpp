#include "codec/jpeg/indexed_walk.h"

#include <algorithm>

#include "codec/jpeg/scan_data.h"

namespace fastload::jpeg {

IndexedWalk::IndexedWalk(EntropyScan& scan, EntropyIndex* index, bool is_recording) noexcept
    : scan_(scan), index_(index), is_recording_(is_recording) {
    if (index == nullptr) return;
    place_ = index->rule().place(0);
    find_next_stop();
}

void IndexedWalk::find_next_stop() noexcept {
    const bool is_stop = next_ < index_->size() || (is_recording_ && next_ < index_->rule().count());
    next_stop_ = is_stop ? index_->rule().mcu(place_) : UINT32_MAX;
}

// False if decoding cannot resume there: the position is after the data, or no 8-bit file has such predictions.
bool IndexedWalk::make_checkpoint(Checkpoint* checkpoint) const noexcept {
    checkpoint->position_bits = scan_.position_bits();
    for (int i = 0; i < index_->shape().component_count; ++i) {
        const auto prediction = static_cast<std::int32_t>(scan_.predictions()[i]);
        checkpoint->predictions[i] = static_cast<std::int16_t>(prediction);
        if (checkpoint->predictions[i] != prediction) return false;
    }
    const bool is_last = next_ + 1 == index_->rule().count();
    return segment_end_fault(checkpoint->position_bits, index_->data_bytes(), is_last) == nullptr;
}

// Compares or records the checkpoint that the scan has reached.
void IndexedWalk::pass_checkpoint() noexcept {
    Checkpoint here;
    const bool is_right = make_checkpoint(&here);
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

// Walks or decodes the next `count` MCUs, from one checkpoint to the next.
Status IndexedWalk::run(std::uint32_t count, bool is_kept) noexcept {
    Status status;
    for (std::uint32_t first = 0; status.is_ok() && first < count;) {
        const std::uint32_t part = std::min(count - first, next_stop_ - scan_.next_mcu());
        status = is_kept ? scan_.decode(part, first) : scan_.walk(part);
        first += part;
        if (status.is_ok() && scan_.next_mcu() == next_stop_) pass_checkpoint();
    }
    return status.is_ok() && is_wrong_ ? refuse() : status;
}

Status IndexedWalk::refuse() noexcept {
    has_relied_ = true;
    return Status::irregular("an index of other data", 0);
}

// Never jumps to the last known checkpoint: after it nothing could show that the index is of other data.
Status IndexedWalk::walk_to(std::uint32_t mcu) noexcept {
    if (index_ != nullptr && index_->size() != 0) {
        const std::size_t reachable = std::min(index_->rule().count_through(mcu), index_->size() - 1);
        if (reachable > next_) {
            const std::size_t target = reachable - 1;
            if (!scan_.resume((*index_)[target], index_->rule().mcu(target))) return refuse();
            next_ = reachable;
            place_ = index_->rule().place(next_);
            find_next_stop();
            has_landed_ = false;
            has_relied_ = true;
        }
    }
    return run(mcu - scan_.next_mcu(), false);
}

Status IndexedWalk::decode(std::uint32_t count) noexcept { return run(count, true); }

Status IndexedWalk::leave_row(std::uint32_t row_end, bool is_last) noexcept {
    if (index_ != nullptr && next_ < index_->size() && index_->rule().count_through(row_end) <= index_->size()) {
        const bool must_land = is_last || index_->level() == IndexLevel::kDense;
        if (has_landed_ || !must_land) return Status::ok();
        row_end = next_stop_;
    }
    return run(row_end - scan_.next_mcu(), false);
}

}  // namespace fastload::jpeg

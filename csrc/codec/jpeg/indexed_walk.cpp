#include "codec/jpeg/indexed_walk.h"

#include <algorithm>

namespace fastload::jpeg {

IndexedWalk::IndexedWalk(EntropyScan& scan, EntropyIndex* index, bool is_recording) noexcept
    : scan_(scan), index_(index), track_(index, is_recording) {
    if (index != nullptr) scan_.follow(&track_);
}

Status IndexedWalk::checked(Status status) noexcept {
    if (!status.is_ok() || !track_.is_wrong()) return status;
    return refuse();
}

Status IndexedWalk::refuse() noexcept {
    has_relied_ = true;
    return Status::irregular("an index of other data", 0);
}

// Never jumps to the last known checkpoint: after it nothing could show that the index is of other data.
Status IndexedWalk::walk_to(std::uint32_t mcu) noexcept {
    if (index_ != nullptr && index_->size() != 0) {
        const std::size_t reachable = std::min(index_->rule().count_through(mcu), index_->size() - 1);
        if (reachable > track_.next()) {
            const std::size_t target = reachable - 1;
            if (!scan_.resume((*index_)[target], index_->rule().mcu(target))) return refuse();
            track_.jump_to(target);
            has_relied_ = true;
        }
    }
    return checked(scan_.walk(mcu - scan_.next_mcu()));
}

Status IndexedWalk::decode(std::uint32_t count) noexcept { return checked(scan_.decode(count)); }

Status IndexedWalk::leave_row(std::uint32_t row_end, bool is_last) noexcept {
    if (index_ != nullptr && track_.next() < index_->size() &&
        index_->rule().count_through(row_end) <= index_->size()) {
        const bool must_land = is_last || index_->level() == IndexLevel::kDense;
        if (track_.has_landed() || !must_land) return Status::ok();
        row_end = track_.next_stop();
    }
    return checked(scan_.walk(row_end - scan_.next_mcu()));
}

}  // namespace fastload::jpeg

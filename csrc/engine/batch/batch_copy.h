// One batch on its way from its staging slot to the device.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/batch/staging_ring.h"

namespace fastload {

// Thread-safe. The copy needs two things, in either order: the batch is written, and there is room for it on the
// device. The thread that brings the second one queues the copy; no thread waits.
class BatchCopy {
  public:
    // The destinations of `parts` are set later. May throw std::bad_alloc.
    BatchCopy(std::shared_ptr<StagingSlot> slot, std::vector<StagedPart> parts, StreamId stream);

    std::size_t num_parts() const noexcept { return parts_.size(); }

    // Sets the destination of each part, which must stay valid until the stream has finished the copy. Later calls do
    // nothing.
    void set_destinations(Span<void* const> to) noexcept;

    // Call from the thread that has written the last sample.
    void set_written() noexcept;

    // Whether the copy was tried, and its result.
    bool is_queued() const noexcept;
    DeviceStatus status() const noexcept;

  private:
    void queue_where_possible() noexcept;  // under mutex_

    mutable std::mutex mutex_;
    const std::shared_ptr<StagingSlot> slot_;
    std::vector<StagedPart> parts_;
    const StreamId stream_;
    bool has_destinations_ = false;
    bool is_written_ = false;
    bool is_queued_ = false;
    DeviceStatus status_;
};

}  // namespace fastload

// The entropy-coded data of one scan: without stuffing, cut into the segments between restart markers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/aligned_buffer.h"
#include "base/span.h"
#include "base/status.h"
#include "kernels/unstuff.h"

namespace fastload::jpeg {

// The bytes of a scan after unstuffing. kReaderPaddingBytes readable zeros follow them.
struct ScanData {
    const std::uint8_t* bytes = nullptr;
    std::size_t size = 0;
    Span<const std::uint32_t> restart_offsets;

    std::size_t segment_begin(std::size_t segment) const noexcept {
        return segment == 0 ? 0 : restart_offsets[segment - 1];
    }
    std::size_t segment_end(std::size_t segment) const noexcept {
        return segment < restart_offsets.size() ? restart_offsets[segment] : size;
    }
};

// The fault of a reader that has used `used_bits` of the data and is in a segment that ends at byte `segment_end`;
// nullptr if there is none. `is_complete` says that all blocks of the segment have been read, so that less than a byte
// of it may be left.
const char* segment_end_fault(std::uint64_t used_bits, std::size_t segment_end, bool is_complete) noexcept;

// Owns the memory of one scan's data.
class ScanReader {
  public:
    // Reads the scan whose data begin at `data_offset` of `file`: `mcu_count` (not 0) MCUs, with a restart marker after
    // every `restart_interval` of them (0 for none). *data is valid until the next call, *end_offset the position of
    // the marker after the scan. kIrregular if restart markers are missing, too many or out of order.
    Status read(ByteSpan file, std::size_t data_offset, std::uint32_t mcu_count, std::uint32_t restart_interval,
                ScanData* data, std::size_t* end_offset) noexcept;

    std::size_t scratch_bytes() const noexcept { return clean_.capacity() + restart_offsets_.capacity(); }
    void release_scratch(ScratchRule rule) noexcept {
        clean_.release(rule);
        restart_offsets_.release(rule);
    }

  private:
    AlignedBuffer clean_;
    AlignedBuffer restart_offsets_;
};

}  // namespace fastload::jpeg

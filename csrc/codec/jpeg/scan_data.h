// The entropy-coded data of one scan: without stuffing, cut into the segments between restart markers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/aligned_buffer.h"
#include "base/span.h"
#include "base/status.h"
#include "codec/jpeg/bit_reader.h"
#include "codec/jpeg/markers.h"
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

// The way through a scan's segments, which the decoders of sequential and of progressive scans share.
class SegmentWalk {
  public:
    // Call after the last MCU that is wanted. Proves that no bit after the segment's end was used and, if the segment
    // was read completely, that less than a byte of it is left.
    Status finish() const noexcept;

  protected:
    // `restart_interval` in MCUs, 0 for none. `file_offset` is only for messages.
    void begin(const ScanData& data, std::uint32_t mcu_count, std::uint32_t restart_interval,
               std::uint64_t file_offset) noexcept;
    // Call after finish() of the segment before it.
    void start_segment() noexcept;
    Status irregular(const char* detail) const noexcept;
    // See Note [padding]: after an MCU that ends after this position, a further one might read outside.
    const std::uint8_t* limit() const noexcept { return data_.bytes + data_.size + sizeof(std::uint64_t); }

    ScanData data_;
    std::uint64_t file_offset_ = 0;
    std::uint32_t mcu_count_ = 0;             // in the scan
    std::uint32_t mcus_left_ = 0;             // in the scan
    std::uint32_t mcus_left_in_segment_ = 0;  // until the next restart
    std::uint32_t restart_interval_ = 0;
    std::size_t next_segment_ = 0;
    bool is_in_segment_ = false;  // reader_ is in segment next_segment_ - 1, or at its end
    BitReader reader_;
    std::uint32_t predictions_[kMaxComponents] = {};  // of the scan's components
};

}  // namespace fastload::jpeg

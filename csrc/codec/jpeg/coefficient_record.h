// Reads coefficient records.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/content_hash.h"
#include "base/image_view.h"
#include "base/span.h"
#include "base/status.h"
#include "codec/decoder.h"
#include "codec/jpeg/coefficient_layout.h"
#include "codec/jpeg/markers.h"

namespace fastload::jpeg {

// Some MCU rows of a record, and the range of their bytes in it.
struct RecordRows {
    std::int32_t first = 0;
    std::int32_t end = 0;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
};

// The head of one record. Not thread-safe.
class CoefficientRecord {
  public:
    // More than the head of most files' records.
    static constexpr std::size_t kFirstBytes = 4096;

    // The length of the head, its table and check included, from the first bytes of a record, at least
    // sizeof(CoefficientHead) of them. Returns the errors of open().
    static Status find_head_bytes(ByteSpan beginning, const DecodeLimits& limits, std::size_t* bytes) noexcept;

    // Takes a head of that length, which stays alive, if it was written under this key and `salt`. kIrregular for any
    // other head; kUnsupported or kLimitExceeded if files of its size and sampling are not decoded under these limits.
    Status open(ByteSpan head, const HashKey& key, std::uint64_t salt, const DecodeLimits& limits) noexcept;

    const Frame& frame() const noexcept { return frame_; }
    ColorModel color() const noexcept { return head_.color; }
    const RecordStamp& stamp() const noexcept { return head_.stamp; }
    // 64-byte aligned.
    const std::uint16_t* quantization(int component) const noexcept { return quantization_[component].values; }

    // The rows that a region inside of the image needs. False if the table cannot be true.
    bool find_rows(const Region& region, RecordRows* rows) const noexcept;
    // True if `bytes`, as many as the rows have, are the ones that were written.
    bool holds(const RecordRows& rows, ByteSpan bytes, const HashKey& key) const noexcept;
    // The packed blocks of a component's block row in one of the rows, out of `bytes`.
    ByteSpan block_row(const RecordRows& rows, ByteSpan bytes, std::int32_t mcu_row, int component,
                       int block_row) const noexcept;

  private:
    std::uint32_t offset_at(std::int32_t mcu_row, int component, int block_row) const noexcept;

    CoefficientHead head_;
    ByteSpan bytes_;  // of the head
    Frame frame_;
    QuantizationTable quantization_[kMaxComponents];
};

}  // namespace fastload::jpeg

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

// Some MCU rows of a record, and where in it their bytes lie.
struct RecordRows {
    std::int32_t first = 0;
    std::int32_t end = 0;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
};

// The head of one record. Not thread-safe.
class CoefficientRecord {
  public:
    // More than the head of a record of most files.
    static constexpr std::size_t kFirstBytes = 4096;

    // How long the head is, its table and check included, from the first bytes of a record, at least
    // sizeof(CoefficientHead) of them. An error as of open().
    static Status find_head_bytes(ByteSpan beginning, const DecodeLimits& limits, std::size_t* bytes) noexcept;

    // Takes a head of that length, which stays alive, if it was written under this key and `salt`. kIrregular for any
    // other; kUnsupported or kLimitExceeded where files of its size and sampling are not decoded under these limits.
    Status open(ByteSpan head, const HashKey& key, std::uint64_t salt, const DecodeLimits& limits) noexcept;

    const Frame& frame() const noexcept { return frame_; }
    ColorModel color() const noexcept { return head_.color; }
    const RecordStamp& stamp() const noexcept { return head_.stamp; }
    // 64-byte aligned.
    const std::uint16_t* quantization(int component) const noexcept { return quantization_[component].values; }

    // Those that a region inside of the image takes. False where the table cannot be true.
    bool find_rows(const Region& region, RecordRows* rows) const noexcept;
    // Whether `bytes`, as many as the rows have, are those that were written.
    bool holds(const RecordRows& rows, ByteSpan bytes, const HashKey& key) const noexcept;
    // The packed blocks of a component's block row of one of the rows, out of `bytes`.
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

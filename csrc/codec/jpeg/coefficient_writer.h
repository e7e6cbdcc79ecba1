// Makes coefficient records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/content_hash.h"
#include "base/span.h"
#include "base/status.h"
#include "codec/jpeg/coefficient_layout.h"
#include "codec/jpeg/markers.h"
#include "kernels/coefficients.h"
#include "kernels/kernel_table.h"

namespace fastload::jpeg {

// For each record: begin(), add() for all block rows in the record's order, set_quantization() for each component,
// finish(). Not thread-safe; owns its memory.
class CoefficientWriter {
  public:
    // `kernels` must outlive the writer.
    explicit CoefficientWriter(const KernelTable& kernels) noexcept : kernels_(kernels) {}

    Status begin(const Frame& frame, ColorModel color) noexcept;

    // The `count` blocks of the next block row: 64 coefficients each, zigzag order, 64-byte aligned, one behind the
    // other. kIrregular where a coefficient does not fit, kLimitExceeded where the record becomes too large.
    Status add(const std::int16_t* blocks, std::size_t count) noexcept;
    // The same of blocks that are packed.
    Status add_packed(ByteSpan packed) noexcept;
    void set_quantization(int component, const QuantizationTable& table) noexcept;

    // The record, when all block rows are in it; it stays until begin(), with kPackedSlackBytes behind it.
    ByteSpan finish(const HashKey& key, std::uint64_t salt, const RecordStamp& stamp) noexcept;

    std::size_t scratch_bytes() const noexcept { return packed_.capacity() + record_.capacity(); }
    void release_scratch(ScratchRule rule) noexcept;

  private:
    std::size_t size() const noexcept { return record_.size() - kPackedSlackBytes; }
    void note_offset() noexcept;

    const KernelTable& kernels_;
    Frame frame_;
    CoefficientHead head_;
    AlignedBuffer packed_;              // one block row
    std::vector<std::uint8_t> record_;  // and kPackedSlackBytes behind it
    std::size_t next_offset_ = 0;       // where the table says how far the blocks have come
};

}  // namespace fastload::jpeg

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

// For each record call begin(), add() for all block rows in the record's order, set_quantization() for each component,
// and finish(). Not thread-safe; owns its memory.
class CoefficientWriter {
  public:
    // `kernels` must outlive the writer.
    explicit CoefficientWriter(const KernelTable& kernels) noexcept : kernels_(kernels) {}

    Status begin(const Frame& frame, ColorModel color) noexcept;

    // Adds the `count` blocks of the next block row: 64 coefficients each, zigzag order, 64-byte aligned, adjacent.
    // kIrregular if a coefficient does not fit, kLimitExceeded if the record becomes too large.
    Status add(const std::int16_t* blocks, std::size_t count) noexcept;
    // Adds blocks that are already packed.
    Status add_packed(ByteSpan packed) noexcept;
    void set_quantization(int component, const QuantizationTable& table) noexcept;

    // The record, when all block rows are in it. It stays until begin(), with kPackedSlackBytes after it.
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
    std::vector<std::uint8_t> record_;  // with kPackedSlackBytes after it
    std::size_t next_offset_ = 0;       // position in the table of the next block row's offset
};

}  // namespace fastload::jpeg

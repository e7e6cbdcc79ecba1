// Reads the parts of a coefficient record that a region needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/aligned_buffer.h"
#include "base/content_hash.h"
#include "base/image_view.h"
#include "base/span.h"
#include "base/status.h"
#include "codec/decoder.h"
#include "codec/jpeg/coefficient_record.h"

namespace fastload::jpeg {

// Source of a record's bytes.
class RecordBytes {
  public:
    virtual ~RecordBytes() = default;

    virtual std::uint64_t size() const noexcept = 0;
    // False if they cannot be read. The caller asks for nothing after size().
    virtual bool read(std::uint64_t offset, Span<std::uint8_t> bytes) noexcept = 0;
};

// A record that is completely in memory, and stays there.
class MemoryBytes final : public RecordBytes {
  public:
    explicit MemoryBytes(ByteSpan bytes) noexcept : bytes_(bytes) {}
    std::uint64_t size() const noexcept override { return bytes_.size(); }
    bool read(std::uint64_t offset, Span<std::uint8_t> bytes) noexcept override {
        if (!bytes.is_empty()) std::memcpy(bytes.data(), bytes_.data() + offset, bytes.size());
        return true;
    }

  private:
    const ByteSpan bytes_;
};

enum class ReadPart : std::uint8_t { kNeeded, kAll };

// Not thread-safe; owns its memory.
class RecordReader {
  public:
    // Reads and checks the head, in one read unless the table is very long, or reads the whole record at once: then
    // read_rows() has nothing to read. Returns the errors of CoefficientRecord::open(), or kReadFailed if bytes cannot
    // be read.
    Status open(RecordBytes* bytes, const HashKey& key, std::uint64_t salt, const DecodeLimits& limits,
                ReadPart part = ReadPart::kNeeded) noexcept;
    const CoefficientRecord& record() const noexcept { return record_; }
    // The bytes of the opened record if they were read at once; all or none.
    std::size_t bytes_ahead() const noexcept { return bytes_ahead_; }

    // Reads and checks the rows for a region inside of the image. `key` is the one given to open().
    Status read_rows(RecordBytes* bytes, const HashKey& key, const Region& region) noexcept;
    // The same for a record that was just made: it is used in place, with kPackedSlackBytes after it, and its sums are
    // not checked.
    Status view_rows(ByteSpan record, const Region& region) noexcept;
    const RecordRows& rows() const noexcept { return rows_; }
    // With kPackedSlackBytes after them.
    ByteSpan row_bytes() const noexcept { return row_bytes_; }

    std::size_t scratch_bytes() const noexcept { return head_buffer_.capacity() + row_buffer_.capacity(); }
    void release_scratch(ScratchRule rule) noexcept;

  private:
    Status read_head(RecordBytes* bytes, const DecodeLimits& limits, ByteSpan* head) noexcept;
    Status read_all(RecordBytes* bytes, const DecodeLimits& limits, ByteSpan* head) noexcept;
    Status fill_row_buffer(RecordBytes* bytes, std::uint64_t offset, std::uint64_t size) noexcept;
    Status find_rows(std::uint64_t record_bytes, const Region& region) noexcept;

    CoefficientRecord record_;
    RecordRows rows_;
    ByteSpan row_bytes_;
    AlignedBuffer head_buffer_;
    AlignedBuffer row_buffer_;
    std::size_t bytes_ahead_ = 0;  // in row_buffer_, from the record's first on
};

}  // namespace fastload::jpeg

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
#include "codec/jpeg/coefficient_layout.h"
#include "codec/jpeg/markers.h"

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

// Some MCU rows of a record, and the range of their bytes in it.
struct RecordRows {
    std::int32_t first = 0;
    std::int32_t end = 0;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
};

// Not thread-safe; owns its memory.
class RecordReader {
  public:
    // More than the head of most files' records.
    static constexpr std::size_t kFirstBytes = 4096;

    // The length of the head, its table and check included, from the first bytes of a record, at least
    // sizeof(CoefficientHead) of them. Returns the errors of open().
    static Status find_head_bytes(ByteSpan beginning, const DecodeLimits& limits, std::size_t* bytes) noexcept;

    // Reads and checks the head, in one read unless the table is very long, or reads the whole record at once: then
    // read_rows() has nothing to read. kIrregular if the head was not written under this key and `salt`; kUnsupported
    // or kLimitExceeded if files of its size and sampling are not decoded under these limits; kReadFailed if bytes
    // cannot be read.
    Status open(RecordBytes* bytes, const HashKey& key, std::uint64_t salt, const DecodeLimits& limits,
                ReadPart part = ReadPart::kNeeded) noexcept;
    const Frame& frame() const noexcept { return frame_; }
    ColorModel color() const noexcept { return head_.color; }
    const RecordStamp& stamp() const noexcept { return head_.stamp; }
    // 64-byte aligned.
    const std::uint16_t* quantization(int component) const noexcept { return quantization_[component].values; }
    // The bytes of the opened record if they were read at once; all or none.
    std::size_t bytes_ahead() const noexcept { return bytes_ahead_; }

    // Reads and checks the rows for a region inside of the image. `key` is the one given to open().
    Status read_rows(RecordBytes* bytes, const HashKey& key, const Region& region) noexcept;
    const RecordRows& rows() const noexcept { return rows_; }
    // The packed blocks of a component's block row in one of the rows. kPackedSlackBytes follow the last of them.
    ByteSpan block_row(std::int32_t mcu_row, int component, int block_row) const noexcept;

    std::size_t scratch_bytes() const noexcept { return head_buffer_.capacity() + row_buffer_.capacity(); }
    void release_scratch(ScratchRule rule) noexcept;

  private:
    Status read_head(RecordBytes* bytes, const DecodeLimits& limits) noexcept;
    Status read_all(RecordBytes* bytes, const DecodeLimits& limits) noexcept;
    Status check_head(const HashKey& key, std::uint64_t salt, const DecodeLimits& limits) noexcept;
    Status fill_row_buffer(RecordBytes* bytes, std::uint64_t offset, std::uint64_t size) noexcept;
    bool find_rows(const Region& region) noexcept;
    bool do_sums_hold(const HashKey& key) const noexcept;
    std::uint32_t offset_at(std::int32_t mcu_row, int component, int block_row) const noexcept;

    ByteSpan head_bytes_;  // in one of the buffers
    CoefficientHead head_;
    Frame frame_;
    QuantizationTable quantization_[kMaxComponents];
    RecordRows rows_;
    const std::uint8_t* row_bytes_ = nullptr;
    AlignedBuffer head_buffer_;
    AlignedBuffer row_buffer_;
    std::size_t bytes_ahead_ = 0;  // in row_buffer_, from the record's first on
};

}  // namespace fastload::jpeg

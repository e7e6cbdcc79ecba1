// The form in which an image is kept that the first steps of a plan have made, so that the others can go on with it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/aligned_buffer.h"
#include "base/content_hash.h"
#include "base/image_view.h"
#include "base/record_stamp.h"
#include "base/span.h"
#include "base/status.h"

namespace fastload {

// Note [pixel records]
// A record is a head and three planes of rows without gaps, which the last write reads as they lie. The head has the
// size of the image in front of the first steps, too: random choices and limits are by that. It is read as a whole; one
// sum is over the planes, and a check over the head. Numbers are in the order of the machine's bytes.

// Beyond it an image has no record.
constexpr std::size_t kMaxPixelRecordBytes = std::size_t{32} << 20;

// Bytes of the three planes of an image of this size, sides in 1..2^20; and of its record.
std::size_t pixel_bytes(ImageSize size) noexcept;
std::size_t pixel_record_bytes(ImageSize size) noexcept;

// Planes that lie behind each other without gaps.
PlanarImageView planes_at(std::uint8_t* pixels, ImageSize size) noexcept;

// Makes records. Not thread-safe; owns its memory.
class PixelRecordWriter {
  public:
    // Gives the place for the planes of an image of `size` that the first steps make of one of `source_size`. Null
    // without memory.
    std::uint8_t* begin(ImageSize size, ImageSize source_size) noexcept;

    // What is there, until the next begin().
    const PlanarImageView& image() const noexcept { return image_; }
    // Its record, which stays as long. An image of more than kMaxPixelRecordBytes has none: it is empty.
    ByteSpan finish(const HashKey& key, std::uint64_t salt, const RecordStamp& stamp) noexcept;

    std::size_t scratch_bytes() const noexcept { return buffer_.capacity(); }
    void release_scratch(ScratchRule rule) noexcept { buffer_.release(rule); }

  private:
    PlanarImageView image_;
    ImageSize source_size_;
    AlignedBuffer buffer_;
};

// Reads records. Not thread-safe; owns its memory.
class PixelRecordReader {
  public:
    // Where a record of `size` bytes is to be put for open(). Null without memory.
    std::uint8_t* reserve(std::size_t size) noexcept;

    // Takes what was put there, if it was written under this key and `salt`. kIrregular for anything else;
    // kLimitExceeded where the image in front of the first steps has more than `max_pixels`.
    Status open(const HashKey& key, std::uint64_t salt, std::uint64_t max_pixels) noexcept;

    ImageSize source_size() const noexcept { return source_size_; }
    const RecordStamp& stamp() const noexcept { return stamp_; }
    const PlanarImageView& image() const noexcept { return image_; }

    std::size_t scratch_bytes() const noexcept { return buffer_.capacity(); }
    void release_scratch(ScratchRule rule) noexcept { buffer_.release(rule); }

  private:
    std::size_t size_ = 0;
    ImageSize source_size_;
    RecordStamp stamp_ = {};
    PlanarImageView image_;
    AlignedBuffer buffer_;
};

}  // namespace fastload

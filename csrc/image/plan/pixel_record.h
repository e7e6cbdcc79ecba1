// The form in which the image after the first steps of a plan is kept, so that the other steps can continue from it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/aligned_buffer.h"
#include "base/content_hash.h"
#include "base/image_view.h"
#include "base/span.h"
#include "base/status.h"

namespace fastload {

// Note [pixel records]
// A record is a head and three planes of rows without gaps, which the last write reads in place. The head also has the
// size of the image before the first steps: random choices and limits depend on it. A record is read as a whole; one
// sum covers the planes, and a check covers the head. Numbers are in the machine's byte order.

// A larger image has no record.
constexpr std::size_t kMaxPixelRecordBytes = std::size_t{32} << 20;

// Bytes of the three planes of an image of this size, sides in 1..2^20; and of its record.
std::size_t pixel_bytes(ImageSize size) noexcept;
std::size_t pixel_record_bytes(ImageSize size) noexcept;

// Planes that follow each other without gaps.
PlanarImageView planes_at(std::uint8_t* pixels, ImageSize size) noexcept;

// Makes records. Not thread-safe; owns its memory.
class PixelRecordWriter {
  public:
    // Returns memory for the planes of an image of `size` that the first steps make of an image of `source_size`. Null
    // if there is no memory.
    std::uint8_t* begin(ImageSize size, ImageSize source_size) noexcept;

    // The image in that memory, until the next begin().
    const PlanarImageView& image() const noexcept { return image_; }
    // The record of the image, valid as long. Empty for an image of more than kMaxPixelRecordBytes, which has no
    // record.
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
    // Returns memory for a record of `size` bytes that open() will check. Null if there is no memory.
    std::uint8_t* reserve(std::size_t size) noexcept;

    // Accepts the bytes in that memory if they were written under this key and `salt`. kIrregular for anything else;
    // kLimitExceeded if the image before the first steps has more than `max_pixels`.
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

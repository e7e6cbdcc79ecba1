// Decodes images with what is known of them from earlier times.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "base/aligned_buffer.h"
#include "base/image_view.h"
#include "base/span.h"
#include "base/status.h"
#include "codec/jpeg/entropy_index.h"
#include "codec/jpeg/jpeg_decoder.h"
#include "engine/cache/decode_cache.h"
#include "engine/sample/sample_timings.h"

namespace fastload {

// The scratch of one thread. Not thread-safe.
class IndexedDecode {
  public:
    // `cache` may be null.
    explicit IndexedDecode(std::shared_ptr<DecodeCache> cache) noexcept : cache_(std::move(cache)) {}

    // As JpegDecoder::decode of `contents`, of which the decoder has accepted the header.
    Status decode(JpegDecoder& decoder, ByteSpan contents, const Region& region, StripImageView* rgb,
                  SampleTimings* timings) noexcept;

    std::size_t scratch_bytes() const noexcept { return buffer_.capacity() + index_.scratch_bytes(); }
    void release_scratch(ScratchRule rule) noexcept;

  private:
    bool look_up(const JpegDecoder& decoder, ByteSpan contents, const Region& region, ContentKey* key) noexcept;
    Span<std::uint8_t> buffer() const noexcept { return {buffer_.data(), DecodeCache::kMaxRecordBytes}; }

    const std::shared_ptr<DecodeCache> cache_;
    AlignedBuffer buffer_;
    jpeg::EntropyIndex index_;
};

}  // namespace fastload

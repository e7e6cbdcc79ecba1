// Decodes images with what is known of them from earlier times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/aligned_buffer.h"
#include "base/image_view.h"
#include "base/span.h"
#include "base/status.h"
#include "codec/jpeg/entropy_index.h"
#include "codec/jpeg/jpeg_decoder.h"
#include "codec/jpeg/scan_data.h"
#include "device/scan_wire.h"
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
                  SampleTimings* timings) noexcept {
        find(decoder, contents, decoder.gains_from_index(region), timings);
        return decode_found(decoder, region, rgb, timings);
    }

    // Looks for the index of `contents`, unless it is not wanted; the functions below use it.
    void find(const JpegDecoder& decoder, ByteSpan contents, bool is_wanted, SampleTimings* timings) noexcept;
    Status decode_found(JpegDecoder& decoder, const Region& region, StripImageView* rgb,
                        SampleTimings* timings) noexcept;
    // Sets what the head says of the file: jpeg::describe_scan. The index then knows all of the region. False without
    // one, if JpegDecoder::read_scan returns false, or if a device must not be given the sample.
    bool describe_scan(JpegDecoder& decoder, const Region& region, ScanHead* head, SampleTimings* timings) noexcept;
    // Writes that sample: jpeg::write_scan.
    void write_scan(const JpegDecoder& decoder, const ScanHead& head, Span<std::uint8_t> wire,
                    SampleTimings* timings) noexcept;

    std::size_t scratch_bytes() const noexcept { return buffer_.capacity() + index_.scratch_bytes(); }
    void release_scratch(ScratchRule rule) noexcept;

  private:
    bool look_up(const JpegDecoder& decoder, ByteSpan contents) noexcept;
    Span<std::uint8_t> buffer() const noexcept { return {buffer_.data(), DecodeCache::kMaxRecordBytes}; }

    const std::shared_ptr<DecodeCache> cache_;
    AlignedBuffer buffer_;
    bool has_index_ = false;
    ContentKey key_;
    jpeg::EntropyIndex index_;
    jpeg::ScanData scan_data_;  // as long as the decoder's
};

}  // namespace fastload

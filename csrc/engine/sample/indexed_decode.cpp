#include "engine/sample/indexed_decode.h"

#include "codec/jpeg/scan_form.h"

namespace fastload {

// False where the image is decoded without.
bool IndexedDecode::look_up(const JpegDecoder& decoder, ByteSpan contents) noexcept {
    jpeg::ScanShape shape;
    if (cache_ == nullptr || !cache_->is_worth_it() || !decoder.scan_shape(&shape) ||
        !buffer_.reserve(DecodeCache::kMaxRecordBytes).is_ok()) {
        return false;
    }
    key_ = cache_->key_of(contents);
    return cache_->find(key_, shape, buffer(), &index_).is_ok();
}

void IndexedDecode::find(const JpegDecoder& decoder, ByteSpan contents, bool is_wanted,
                         SampleTimings* timings) noexcept {
    const StageTimer timer(&timings->cache_ns);
    has_index_ = is_wanted && look_up(decoder, contents);
}

Status IndexedDecode::decode_found(JpegDecoder& decoder, const Region& region, StripImageView* rgb,
                                   SampleTimings* timings) noexcept {
    const std::uint32_t rows_known = has_index_ ? index_.rows_known() : 0;
    Status status;
    {
        const StageTimer timer(&timings->decode_ns);
        status = decoder.decode(region, has_index_ ? &index_ : nullptr, rgb);
    }
    if (!has_index_) return status;
    const StageTimer timer(&timings->cache_ns);
    if (decoder.was_index_wrong()) {
        cache_->drop(key_);
    } else if (status.is_ok() && index_.rows_known() > rows_known) {
        cache_->keep(key_, index_, buffer());
    }
    return status;
}

bool IndexedDecode::describe_scan(JpegDecoder& decoder, const Region& region, ScanHead* head,
                                  SampleTimings* timings) noexcept {
    if (!has_index_) return false;
    const std::uint32_t rows_known = index_.rows_known();
    {
        const StageTimer timer(&timings->decode_ns);
        if (!decoder.read_scan(region, &index_, &scan_data_)) return false;
        jpeg::describe_scan({decoder.header(), scan_data_, index_}, region, head);
    }
    if (index_.is_worth_a_record(index_.rows_known() - rows_known)) {
        const StageTimer timer(&timings->cache_ns);
        cache_->keep(key_, index_, buffer());
    }
    return is_valid_scan(*head, head->bytes);
}

void IndexedDecode::write_scan(const JpegDecoder& decoder, const ScanHead& head, Span<std::uint8_t> wire,
                               SampleTimings* timings) noexcept {
    const StageTimer timer(&timings->decode_ns);
    jpeg::write_scan({decoder.header(), scan_data_, index_}, head, wire);
}

void IndexedDecode::release_scratch(ScratchRule rule) noexcept {
    buffer_.release(rule);
    index_.release_scratch(rule);
}

}  // namespace fastload

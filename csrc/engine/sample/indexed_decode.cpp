#include "engine/sample/indexed_decode.h"

namespace fastload {

// False where the image is decoded without.
bool IndexedDecode::look_up(const JpegDecoder& decoder, ByteSpan contents, const Region& region,
                            ContentKey* key) noexcept {
    jpeg::ScanShape shape;
    if (cache_ == nullptr || !cache_->is_worth_it() || !decoder.gains_from_index(region) ||
        !decoder.scan_shape(&shape) || !buffer_.reserve(DecodeCache::kMaxRecordBytes).is_ok()) {
        return false;
    }
    *key = cache_->key_of(contents);
    return cache_->find(*key, shape, buffer(), &index_).is_ok();
}

Status IndexedDecode::decode(JpegDecoder& decoder, ByteSpan contents, const Region& region, StripImageView* rgb,
                             SampleTimings* timings) noexcept {
    ContentKey key;
    bool has_index = false;
    {
        const StageTimer timer(&timings->cache_ns);
        has_index = look_up(decoder, contents, region, &key);
    }
    const std::uint32_t rows_known = has_index ? index_.rows_known() : 0;
    Status status;
    {
        const StageTimer timer(&timings->decode_ns);
        status = decoder.decode(region, has_index ? &index_ : nullptr, rgb);
    }
    if (!has_index) return status;
    const StageTimer timer(&timings->cache_ns);
    if (decoder.was_index_wrong()) {
        cache_->drop(key);
    } else if (status.is_ok() && index_.rows_known() > rows_known) {
        cache_->keep(key, index_, buffer());
    }
    return status;
}

void IndexedDecode::release_scratch(ScratchRule rule) noexcept {
    buffer_.release(rule);
    index_.release_scratch(rule);
}

}  // namespace fastload

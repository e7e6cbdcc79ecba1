#include "engine/sample/recorded_decode.h"

#include <cstring>

namespace fastload {
namespace {

std::size_t packed_bytes(const StripImageView& rgb) {
    return std::size_t{3} * static_cast<std::size_t>(rgb.width) * static_cast<std::size_t>(rgb.height);
}

}  // namespace

bool RecordedDecode::decode(const CoefficientCache& cache, RecordedFile* file, const Region& region,
                            JpegDecoder* decoder, StripImageView* rgb, SampleTimings* timings) noexcept {
    {
        const StageTimer timer(&timings->cache_ns);
        if (!file->read_rows(cache, region).is_ok()) return false;
    }
    const StageTimer timer(&timings->decode_ns);
    const bool is_decoded = decoder->decode_record(file->reader(), region, rgb).is_ok();
    if (!is_decoded) file->give_up();
    return is_decoded;
}

bool RecordedDecode::make(CoefficientCache* cache, const RecordedFile& file, ByteSpan contents, const Region& region,
                          JpegDecoder* decoder, StripImageView* rgb, SampleTimings* timings) noexcept {
    {
        const StageTimer timer(&timings->decode_ns);
        if (!decoder->read_coefficients(&writer_).is_ok()) return false;
    }
    const FileVersion& version = file.version();
    ByteSpan record;
    {
        const StageTimer timer(&timings->cache_ns);
        record = writer_.finish(cache->key(), cache->salt_of(version), cache->stamp_of(version, contents));
        cache->put(version, record);
    }
    const StageTimer timer(&timings->decode_ns);
    jpeg::MemoryBytes bytes(record);
    return made_.open(&bytes, cache->key(), cache->salt_of(version), limits_).is_ok() &&
           made_.read_rows(&bytes, cache->key(), region).is_ok() && decoder->decode_record(made_, region, rgb).is_ok();
}

bool RecordedDecode::pack(const StripImageView& rgb, AlignedBuffer* pixels) const noexcept {
    if (!pixels->reserve(packed_bytes(rgb)).is_ok()) return false;
    ConvertJob job;
    job.width = rgb.width;
    job.height = rgb.height;
    job.is_channels_last = true;
    kernels_.convert_strips(rgb, job, pixels->data());
    return true;
}

bool RecordedDecode::remember(const StripImageView& rgb) noexcept {
    remembered_bytes_ = packed_bytes(rgb);
    return pack(rgb, &remembered_);
}

bool RecordedDecode::equals(const StripImageView& rgb) noexcept {
    // Without memory nothing is known, which is no difference.
    if (!pack(rgb, &compared_)) return true;
    return packed_bytes(rgb) == remembered_bytes_ &&
           std::memcmp(compared_.data(), remembered_.data(), remembered_bytes_) == 0;
}

std::size_t RecordedDecode::scratch_bytes() const noexcept {
    return writer_.scratch_bytes() + made_.scratch_bytes() + remembered_.capacity() + compared_.capacity();
}

void RecordedDecode::release_scratch(ScratchRule rule) noexcept {
    writer_.release_scratch(rule);
    made_.release_scratch(rule);
    remembered_.release(rule);
    compared_.release(rule);
}

}  // namespace fastload

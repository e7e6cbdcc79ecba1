#include "engine/sample/recorded_decode.h"

#include <cstring>

#include "image/plan/pixel_record.h"

namespace fastload {
namespace {

std::size_t packed_bytes(const LoadedPixels& pixels) { return pixel_bytes(pixels.size()); }

}  // namespace

bool RecordedDecode::decode(const FileRecordCache& cache, RecordedFile* file, const Region& region,
                            JpegDecoder* decoder, StripImageView* rgb, SampleTimings* timings) noexcept {
    std::uint64_t rows_ns = 0;
    const bool was_read_ahead = file->reader().bytes_ahead() > 0;
    bool is_read = false;
    {
        const StageTimer timer(&rows_ns);
        is_read = file->read_rows(cache, region).is_ok();
    }
    timings->cache_ns += rows_ns;
    if (!was_read_ahead) timings->record_ns += rows_ns;
    if (!is_read) return false;
    const StageTimer timer(&timings->decode_ns);
    const bool is_decoded = decoder->decode_record(file->reader(), region, rgb).is_ok();
    if (!is_decoded) file->give_up();
    return is_decoded;
}

bool RecordedDecode::pack(const LoadedPixels& pixels, AlignedBuffer* packed) const noexcept {
    if (!packed->reserve(packed_bytes(pixels)).is_ok()) return false;
    ConvertJob job;
    job.width = pixels.size().width;
    job.height = pixels.size().height;
    if (pixels.are_first_steps_done) {
        kernels_.convert_rows(pixels.rows, job, packed->data());
    } else {
        kernels_.convert_strips(pixels.view, job, packed->data());
    }
    return true;
}

bool RecordedDecode::remember(const LoadedPixels& pixels) noexcept {
    remembered_bytes_ = packed_bytes(pixels);
    return pack(pixels, &remembered_);
}

bool RecordedDecode::equals(const LoadedPixels& pixels) noexcept {
    // Without memory nothing is known, which is no difference.
    if (!pack(pixels, &compared_)) return true;
    return packed_bytes(pixels) == remembered_bytes_ &&
           std::memcmp(compared_.data(), remembered_.data(), remembered_bytes_) == 0;
}

std::size_t RecordedDecode::scratch_bytes() const noexcept { return remembered_.capacity() + compared_.capacity(); }

void RecordedDecode::release_scratch(ScratchRule rule) noexcept {
    remembered_.release(rule);
    compared_.release(rule);
}

}  // namespace fastload

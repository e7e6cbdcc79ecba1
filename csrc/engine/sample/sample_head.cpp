#include "engine/sample/sample_head.h"

#include <new>
#include <utility>

#include "engine/sample/sample_timings.h"

namespace fastload {

SampleHead::SampleHead(const KernelTable& kernels, const NativeWorkerOptions& options)
    : options_(options), decoder_(kernels, options.decode_limits), executor_(kernels) {}

Status SampleHead::run(ByteSpan path, const TransformPlan& plan, DrawSource* draws, HeadResult* result) noexcept {
    ByteSpan file;
    {
        const StageTimer timer(&timings_.read_ns);
        if (const Status status = reader_.read(path, options_.max_file_bytes, &file); !status.is_ok()) return status;
        timings_.bytes_read += file.size();
    }
    if (!options_.is_native_jpeg_allowed) return Status::unsupported("the installed Pillow has no libjpeg-turbo");
    {
        const StageTimer timer(&timings_.header_ns);
        ImageInfo info;
        if (const Status status = decoder_.read_header(file, &info); !status.is_ok()) return status;
        if (const Status status = plan.resolve(draws, info.size, &resolved_); !status.is_ok()) return status;
    }
    StripImageView pixels;
    {
        const StageTimer timer(&timings_.decode_ns);
        const Status status = decoder_.decode(resolved_.source_region, &pixels);
        if (!status.is_ok()) return status;
    }
    return transform(pixels, plan, result);
}

Status SampleHead::run_with_pixels(const PackedImageView& rgb, const TransformPlan& plan, DrawSource* draws,
                                   HeadResult* result) noexcept {
    const Status status = plan.resolve(draws, {rgb.width, rgb.height}, &resolved_);
    if (!status.is_ok()) return status;
    StripImageView pixels;
    {
        const StageTimer timer(&timings_.transform_ns);
        if (const Status loaded = executor_.load_packed(rgb, &pixels); !loaded.is_ok()) return loaded;
    }
    return transform(pixels.crop(resolved_.source_region), plan, result);
}

SampleTimings SampleHead::take_timings() noexcept { return std::exchange(timings_, {}); }

std::size_t SampleHead::scratch_bytes() const noexcept {
    return reader_.scratch_bytes() + decoder_.scratch_bytes() + executor_.scratch_bytes();
}

Status SampleHead::transform(const StripImageView& pixels, const TransformPlan& plan, HeadResult* result) noexcept {
    const StageTimer timer(&timings_.transform_ns);
    result->size = resolved_.output_size;
    if (!plan.count_bytes(result->size, &result->size_bytes)) {
        return {StatusCode::kOutOfMemory, 0, 0, "the image is too large"};
    }
    result->bytes.reset(new (std::nothrow) std::uint8_t[result->size_bytes]);
    if (result->bytes == nullptr) return {StatusCode::kOutOfMemory, 0, 0, "no memory for the image"};
    return executor_.run(plan, resolved_, pixels, result->bytes.get());
}

}  // namespace fastload

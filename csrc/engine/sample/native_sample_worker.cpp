#include "engine/sample/native_sample_worker.h"

#include "engine/sample/sample_timings.h"

namespace fastload {
namespace {

constexpr Status kCancelledStatus = {StatusCode::kCancelled, 0, 0, ""};

bool is_cancelled(const SampleTask& task) noexcept { return task.is_cancelled->load(std::memory_order_relaxed); }

}  // namespace

NativeSampleWorker::NativeSampleWorker(const KernelTable& kernels, const NativeWorkerOptions& options)
    : options_(options), decoder_(kernels, options.decode_limits), executor_(kernels) {}

void NativeSampleWorker::read(const SampleTask& task, SampleTimings* timings) noexcept {
    const StageTimer timer(&timings->read_ns);
    task.file->read(task.source->index->path(task.sample_index, &path_buffer_), options_.max_file_bytes);
    timings->bytes_read += task.file->contents().size();
}

Status NativeSampleWorker::run(const SampleTask& task, SampleTimings* timings) noexcept {
    if (!task.file->is_read()) read(task, timings);
    if (const Status status = task.file->status(); !status.is_ok()) return status;
    if (is_cancelled(task)) return kCancelledStatus;
    if (!options_.is_native_jpeg_allowed) return Status::unsupported("the installed Pillow has no libjpeg-turbo");
    ImageSize size;
    {
        const StageTimer timer(&timings->header_ns);
        ImageInfo info;
        if (const Status status = decoder_.read_header(task.file->contents(), &info); !status.is_ok()) return status;
        size = info.size;
    }
    // An image that the transform cannot be applied to is decoded as well: a damaged one is damaged first.
    const Status choices = task.choices->resolve(task, size);
    if (!choices.is_ok() && choices.code != StatusCode::kInvalidGeometry) return choices;
    StripImageView pixels;
    const Region region = choices.is_ok() ? task.report->source_region() : Region{0, 0, size.width, size.height};
    {
        const StageTimer timer(&timings->decode_ns);
        if (const Status status = decoder_.decode(region, &pixels); !status.is_ok()) return status;
    }
    if (!choices.is_ok()) return choices;
    if (is_cancelled(task)) return kCancelledStatus;
    return transform(task, pixels, region, timings);
}

Status NativeSampleWorker::run_with_pixels(const SampleTask& task, const PackedImageView& rgb,
                                           SampleTimings* timings) noexcept {
    if (const Status status = task.choices->resolve(task, {rgb.width, rgb.height}); !status.is_ok()) return status;
    StripImageView pixels;
    {
        const StageTimer timer(&timings->transform_ns);
        if (const Status status = executor_.load_packed(rgb, &pixels); !status.is_ok()) return status;
    }
    return transform(task, pixels, {0, 0, rgb.width, rgb.height}, timings);
}

std::size_t NativeSampleWorker::scratch_bytes() const noexcept {
    return decoder_.scratch_bytes() + executor_.scratch_bytes();
}

Status NativeSampleWorker::transform(const SampleTask& task, const StripImageView& pixels, const Region& region,
                                     SampleTimings* timings) noexcept {
    const StageTimer timer(&timings->transform_ns);
    for (std::size_t i = 0; i < task.source->views.size(); ++i) {
        const ResolvedTransform& resolved = task.report->views[i];
        Region needed = resolved.source_region;
        needed.left -= region.left;
        needed.top -= region.top;
        const Status status =
            executor_.run(*task.source->views[i].plan, resolved, pixels.crop(needed), task.destination(i));
        if (!status.is_ok()) return status;
    }
    return Status::ok();
}

}  // namespace fastload

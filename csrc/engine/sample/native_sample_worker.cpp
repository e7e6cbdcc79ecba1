#include "engine/sample/native_sample_worker.h"

#include "engine/sample/sample_timings.h"

namespace fastload {
namespace {

constexpr const char* kNoLibjpegTurbo = "the installed Pillow has no libjpeg-turbo";
constexpr Status kCancelledStatus = {StatusCode::kCancelled, 0, 0, ""};

bool is_cancelled(const SampleTask& task) noexcept {
    return task.is_cancelled != nullptr && task.is_cancelled->load(std::memory_order_relaxed);
}

}  // namespace

NativeSampleWorker::NativeSampleWorker(const KernelTable& kernels, const NativeWorkerOptions& options)
    : options_(options), decoder_(kernels, options.decode_limits), indexed_decode_(options.cache), executor_(kernels) {}

void NativeSampleWorker::read(const SampleTask& task, SampleTimings* timings) noexcept {
    const SampleSource& source = *task.source;
    read_file(source.index->path(task.sample_index, &path_buffer_), source.directory.get(), task.file, timings);
}

void NativeSampleWorker::read_file(ByteSpan path, const WorkingDirectory* directory, SampleFile* file,
                                   SampleTimings* timings) const noexcept {
    const StageTimer timer(&timings->read_ns);
    const Judge judge(*this);
    file->read(path, options_.max_file_bytes, directory, &judge);
    timings->bytes_read += file->contents().size();
}

Status NativeSampleWorker::run(const SampleTask& task, SampleTimings* timings) noexcept {
    const Status status = run_steps(task, timings);
    end_sample();
    return status;
}

Status NativeSampleWorker::run_steps(const SampleTask& task, SampleTimings* timings) noexcept {
    if (!task.file->is_read()) read(task, timings);
    LoadedPixels pixels;
    if (const Status status = decode(task, &pixels, timings); !status.is_ok()) return status;
    return write_views(task, pixels, timings);
}

Status NativeSampleWorker::run_with_pixels(const SampleTask& task, const PackedImageView& rgb,
                                           SampleTimings* timings) noexcept {
    const Status status = run_steps_with_pixels(task, rgb, timings);
    end_sample();
    return status;
}

Status NativeSampleWorker::run_steps_with_pixels(const SampleTask& task, const PackedImageView& rgb,
                                                 SampleTimings* timings) noexcept {
    LoadedPixels pixels;
    if (const Status status = load_packed(task, rgb, &pixels, timings); !status.is_ok()) return status;
    return write_views(task, pixels, timings);
}

Status NativeSampleWorker::check(ByteSpan contents, ImageInfo* info, std::size_t* end_offset) noexcept {
    if (!options_.is_native_jpeg_allowed) return Status::unsupported(kNoLibjpegTurbo);
    const Status status = decoder_.read_header(contents, info);
    return status.is_ok() ? decoder_.check_file(end_offset) : status;
}

Status NativeSampleWorker::decode(const SampleTask& task, LoadedPixels* pixels, SampleTimings* timings) noexcept {
    if (const Status status = task.file->status(); !status.is_ok()) return status;
    if (is_cancelled(task)) return kCancelledStatus;
    if (!options_.is_native_jpeg_allowed) return Status::unsupported(kNoLibjpegTurbo);
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
    pixels->region = choices.is_ok() ? task.report->source_region() : Region{0, 0, size.width, size.height};
    const Status decoded =
        indexed_decode_.decode(decoder_, task.file->contents(), pixels->region, &pixels->view, timings);
    if (!decoded.is_ok()) return decoded;
    if (!choices.is_ok()) return choices;
    return is_cancelled(task) ? kCancelledStatus : Status::ok();
}

Status NativeSampleWorker::load_packed(const SampleTask& task, const PackedImageView& rgb, LoadedPixels* pixels,
                                       SampleTimings* timings) noexcept {
    if (const Status status = task.choices->resolve(task, {rgb.width, rgb.height}); !status.is_ok()) return status;
    const StageTimer timer(&timings->transform_ns);
    const Region region = task.report->source_region();
    pixels->region = region;
    return executor_.load_packed(rgb.crop(region), &pixels->view);
}

Status NativeSampleWorker::write_views(const SampleTask& task, const LoadedPixels& pixels,
                                       SampleTimings* timings) noexcept {
    for (std::size_t i = 0; i < task.source->views.size(); ++i) {
        const Status status = write(task, pixels, i, task.destination(i), timings);
        if (!status.is_ok()) return status;
    }
    return Status::ok();
}

Status NativeSampleWorker::write(const SampleTask& task, const LoadedPixels& pixels, std::size_t view,
                                 void* destination, SampleTimings* timings) noexcept {
    const StageTimer timer(&timings->transform_ns);
    const ResolvedTransform& resolved = task.report->views[view];
    Region needed = resolved.source_region;
    needed.left -= pixels.region.left;
    needed.top -= pixels.region.top;
    return executor_.run(*task.source->views[view].plan, resolved, pixels.view.crop(needed), destination);
}

void NativeSampleWorker::end_sample() noexcept {
    release_scratch(scratch_bytes() > kMaxKeptScratchBytes ? ScratchRule::kLarge : ScratchRule::kUnneeded);
}

void NativeSampleWorker::release_large_scratch() noexcept { release_scratch(ScratchRule::kLarge); }

void NativeSampleWorker::release_scratch(ScratchRule rule) noexcept {
    decoder_.release_scratch(rule);
    indexed_decode_.release_scratch(rule);
    executor_.release_scratch(rule);
}

std::size_t NativeSampleWorker::scratch_bytes() const noexcept {
    return decoder_.scratch_bytes() + indexed_decode_.scratch_bytes() + executor_.scratch_bytes();
}

}  // namespace fastload

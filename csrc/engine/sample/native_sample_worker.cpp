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
    : options_(options),
      coefficients_(options.is_native_jpeg_allowed && options.cache != nullptr ? options.cache->coefficients()
                                                                               : nullptr),
      decoder_(kernels, options.decode_limits),
      indexed_decode_(options.cache),
      recorded_decode_(kernels, options.decode_limits),
      executor_(kernels) {}

void NativeSampleWorker::read(const SampleTask& task, SampleTimings* timings) noexcept {
    const SampleSource& source = *task.source;
    read_file(source.index->path(task.sample_index, &path_buffer_), source.directory.get(), false, task.file, timings);
}

void NativeSampleWorker::read_file(ByteSpan path, const WorkingDirectory* directory, bool needs_metadata,
                                   SampleFile* file, SampleTimings* timings) const noexcept {
    RecordedFile* const recorded = coefficients_ == nullptr || needs_metadata ? nullptr : file->recorded();
    if (recorded == nullptr) return read_contents(path, directory, file, timings);
    if (open_record(path, directory, recorded, timings)) return file->take_record();
    const std::int64_t opened_ns = system_time_ns();
    read_contents(path, directory, file, timings);
    if (!recorded->has_key() || !file->status().is_ok()) return;
    const StageTimer timer(&timings->cache_ns);
    recorded->note_read(file->facts(), opened_ns);
    if (coefficients_->checks_contents()) {
        recorded->find(*coefficients_, file->facts(), file->contents(), options_.decode_limits);
    }
}

void NativeSampleWorker::take_contents(ByteSpan contents, const OpenedVersion* opened, SampleFile* file,
                                       SampleTimings* timings) const noexcept {
    file->view(contents);
    RecordedFile* const recorded = coefficients_ == nullptr || opened == nullptr ? nullptr : file->recorded();
    if (recorded == nullptr) return;
    const StageTimer timer(&timings->cache_ns);
    recorded->begin_opened(*opened);
    recorded->find(*coefficients_, opened->version.facts, contents, options_.decode_limits);
}

// Finds the record by which a file need not be read.
bool NativeSampleWorker::open_record(ByteSpan path, const WorkingDirectory* directory, RecordedFile* recorded,
                                     SampleTimings* timings) const noexcept {
    std::uint64_t found_in_ns = 0;
    bool is_found = false;
    {
        const StageTimer timer(&found_in_ns);
        if (recorded->begin(*coefficients_, path, directory) && !coefficients_->checks_contents()) {
            FileFacts facts;
            const bool is_believed =
                coefficients_->find_facts(path, directory, &facts) && facts.size <= options_.max_file_bytes;
            is_found = is_believed && recorded->find(*coefficients_, facts, {}, options_.decode_limits);
            if (!is_believed) recorded->forget();
        }
    }
    recorded->note_found_in(found_in_ns);
    timings->cache_ns += found_in_ns;
    return is_found;
}

void NativeSampleWorker::read_contents(ByteSpan path, const WorkingDirectory* directory, SampleFile* file,
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
    if (const Status status = find_size(task.file, &size, timings); !status.is_ok()) return status;
    // An image that the transform cannot be applied to is decoded as well: a damaged one is damaged first.
    const Status choices = task.choices->resolve(task, size);
    if (!choices.is_ok() && choices.code != StatusCode::kInvalidGeometry) return choices;
    pixels->region = choices.is_ok() ? task.report->source_region() : Region{0, 0, size.width, size.height};
    const Status decoded = task.file->has_record() ? decode_record(task, size, pixels, timings)
                                                   : decode_contents(task.file, pixels, timings);
    if (!decoded.is_ok()) return decoded;
    if (!choices.is_ok()) return choices;
    return is_cancelled(task) ? kCancelledStatus : Status::ok();
}

// From the file's header or its record.
Status NativeSampleWorker::find_size(SampleFile* file, ImageSize* size, SampleTimings* timings) noexcept {
    const StageTimer timer(&timings->header_ns);
    if (file->has_record()) {
        *size = file->recorded()->size();
        return Status::ok();
    }
    ImageInfo info;
    const Status status = decoder_.read_header(file->contents(), &info);
    if (status.is_ok()) *size = info.size;
    return status;
}

// Of a file of which no record is believed.
Status NativeSampleWorker::decode_contents(SampleFile* file, LoadedPixels* pixels, SampleTimings* timings) noexcept {
    RecordedFile* const recorded = coefficients_ == nullptr ? nullptr : file->recorded();
    if (recorded != nullptr && recorded->has_key()) {
        coefficients_->count(recorded->version(), recorded->outcome());
        if (recorded->is_wanted(*coefficients_) &&
            recorded_decode_.make(coefficients_, *recorded, file->contents(), pixels->region, &decoder_, &pixels->view,
                                  timings)) {
            return Status::ok();
        }
    }
    return indexed_decode_.decode(decoder_, file->contents(), pixels->region, &pixels->view, timings);
}

// `size` is what the record has said.
Status NativeSampleWorker::decode_record(const SampleTask& task, ImageSize size, LoadedPixels* pixels,
                                         SampleTimings* timings) noexcept {
    RecordedFile& recorded = *task.file->recorded();
    std::uint64_t hit_ns = recorded.found_in_ns();
    bool is_decoded = false;
    {
        const StageTimer timer(&hit_ns);
        is_decoded =
            recorded_decode_.decode(*coefficients_, &recorded, pixels->region, &decoder_, &pixels->view, timings);
    }
    coefficients_->count(recorded.version(), recorded.outcome());
    if (is_decoded) coefficients_->pace().count_hit(hit_ns);
    const bool is_checked = is_decoded && coefficients_->is_checked(recorded.version(), task.source->epoch) &&
                            recorded_decode_.remember(pixels->view);
    task.report->is_by_record = is_decoded && !is_checked;
    if (task.report->is_by_record) return Status::ok();

    std::uint64_t file_ns = 0;
    Status status;
    {
        const StageTimer timer(&file_ns);
        status = decode_behind_record(task.file, size, pixels, timings);
    }
    // A file that was changed since the record was looked for says nothing about it.
    if (is_checked && (recorded.path().is_empty() || task.file->facts() == recorded.version().facts)) {
        coefficients_->pace().count_check(file_ns);
        coefficients_->count_check(status.is_ok() && recorded_decode_.equals(pixels->view));
    }
    return status;
}

// By the file whose record has said `size`.
Status NativeSampleWorker::decode_behind_record(SampleFile* file, ImageSize size, LoadedPixels* pixels,
                                                SampleTimings* timings) noexcept {
    Status status = read_behind_record(file, timings);
    ImageInfo info;
    if (status.is_ok()) status = decoder_.read_header(file->contents(), &info);
    if (status.is_ok() && (info.size.width != size.width || info.size.height != size.height)) {
        return {StatusCode::kInvalidGeometry, 0, 0, "the size of the image changed while it was loaded"};
    }
    if (!status.is_ok()) return status;
    return indexed_decode_.decode(decoder_, file->contents(), pixels->region, &pixels->view, timings);
}

// The file of an open record, unless it was read before the record was believed.
Status NativeSampleWorker::read_behind_record(SampleFile* file, SampleTimings* timings) const noexcept {
    if (file->contents().is_empty()) {
        const RecordedFile& recorded = *file->recorded();
        read_contents(recorded.path(), recorded.directory(), file, timings);
    }
    return file->status();
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
    recorded_decode_.release_scratch(rule);
    executor_.release_scratch(rule);
}

std::size_t NativeSampleWorker::scratch_bytes() const noexcept {
    return decoder_.scratch_bytes() + indexed_decode_.scratch_bytes() + recorded_decode_.scratch_bytes() +
           executor_.scratch_bytes();
}

}  // namespace fastload

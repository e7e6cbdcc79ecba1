#include "engine/sample/native_sample_worker.h"

#include <cstring>

#include "engine/sample/sample_timings.h"
#include "image/pixels/pixel_buffers.h"
#include "image/plan/described_image.h"

namespace fastload {
namespace {

constexpr const char* kNoLibjpegTurbo = "the installed Pillow has no libjpeg-turbo";
constexpr Status kCancelledStatus = {StatusCode::kCancelled, 0, 0, ""};

bool is_cancelled(const SampleTask& task) noexcept {
    return task.is_cancelled != nullptr && task.is_cancelled->load(std::memory_order_relaxed);
}

// The image after the first steps.
void show_whole(const PlanarImageView& image, LoadedPixels* pixels) noexcept {
    pixels->rows = image;
    pixels->region = {0, 0, image.width, image.height};
    pixels->are_first_steps_done = true;
}

}  // namespace

NativeSampleWorker::NativeSampleWorker(const KernelTable& kernels, const NativeWorkerOptions& options)
    : options_(options),
      coefficients_(options.is_native_jpeg_allowed && options.cache != nullptr ? options.cache->coefficients()
                                                                               : nullptr),
      pixels_(options.cache != nullptr ? options.cache->pixels() : nullptr),
      decoder_(kernels, options.decode_limits),
      indexed_decode_(options.cache),
      kernels_(kernels),
      executor_(kernels) {}

void NativeSampleWorker::read_ahead(const SampleTask& task, SampleTimings* timings) noexcept {
    read(task, jpeg::ReadPart::kAll, timings);
}

void NativeSampleWorker::read(const SampleTask& task, jpeg::ReadPart part, SampleTimings* timings) noexcept {
    const SampleSource& source = *task.source;
    read_for(source.first_steps.get(), source.index->path(task.sample_index, &path_buffer_), source.directory.get(),
             part, task.file, timings);
}

void NativeSampleWorker::read_for(const FirstSteps* first_steps, ByteSpan path, const WorkingDirectory* directory,
                                  jpeg::ReadPart part, SampleFile* file, SampleTimings* timings) const noexcept {
    FileRecordCache* const records = records_for(first_steps);
    RecordedFile* const recorded = records == nullptr ? nullptr : file->recorded();
    if (recorded == nullptr) return read_contents(path, directory, file, timings);
    const StepsHash steps = first_steps == nullptr ? StepsHash{} : first_steps->hash;
    if (open_record(records, steps, path, directory, part, recorded, timings)) return file->take_record();
    read_contents(path, directory, file, timings);
    if (!recorded->has_key() || !records->checks_contents() || !file->status().is_ok()) return;
    const StageTimer timer(&timings->cache_ns);
    recorded->find(*records, file->facts(), file->contents(), options_.decode_limits, part);
}

void NativeSampleWorker::take_contents(ByteSpan contents, const FileVersion* opened, SampleFile* file,
                                       SampleTimings* timings) const noexcept {
    file->view(contents);
    RecordedFile* const recorded = coefficients_ == nullptr || opened == nullptr ? nullptr : file->recorded();
    if (recorded == nullptr) return;
    const StageTimer timer(&timings->cache_ns);
    recorded->begin_opened(*opened);
    recorded->find(*coefficients_, opened->facts, contents, options_.decode_limits);
}

// Finds the record by which a file need not be read.
bool NativeSampleWorker::open_record(FileRecordCache* records, const StepsHash& steps, ByteSpan path,
                                     const WorkingDirectory* directory, jpeg::ReadPart part, RecordedFile* recorded,
                                     SampleTimings* timings) const noexcept {
    std::uint64_t found_in_ns = 0;
    bool is_found = false;
    {
        const StageTimer timer(&found_in_ns);
        if (recorded->begin(*records, path, directory, steps) && !records->checks_contents()) {
            FileFacts facts;
            is_found = records->find_facts(path, directory, &facts) && facts.size <= options_.max_file_bytes &&
                       recorded->find(*records, facts, {}, options_.decode_limits, part);
        }
    }
    timings->cache_ns += found_in_ns;
    timings->record_ns += found_in_ns;
    return is_found;
}

void NativeSampleWorker::read_contents(ByteSpan path, const WorkingDirectory* directory, SampleFile* file,
                                       SampleTimings* timings) const noexcept {
    const StageTimer timer(&timings->read_ns);
    file->read(path, options_.max_file_bytes, directory,
               [this](ByteSpan head) { return !options_.is_native_jpeg_allowed || decoder_.rejects_head(head); });
    timings->bytes_read += file->contents().size();
}

Status NativeSampleWorker::run(const SampleTask& task, SampleTimings* timings) noexcept {
    if (!task.file->is_read()) read(task, jpeg::ReadPart::kNeeded, timings);
    LoadedPixels pixels;
    Status status = decode(task, &pixels, timings);
    if (status.is_ok() && !pixels.is_on_wire) status = write_views(task, pixels, timings);
    end_sample();
    return status;
}

Status NativeSampleWorker::run_with_pixels(const SampleTask& task, const PackedImageView& rgb,
                                           SampleTimings* timings) noexcept {
    LoadedPixels pixels;
    Status status = load_packed(task, rgb, &pixels, timings);
    if (status.is_ok()) status = write_views(task, pixels, timings);
    end_sample();
    return status;
}

Status NativeSampleWorker::check(ByteSpan contents, ImageInfo* info, std::size_t* end_offset) noexcept {
    if (!options_.is_native_jpeg_allowed) return Status::unsupported(kNoLibjpegTurbo);
    const Status status = decoder_.read_header(contents, info);
    return status.is_ok() ? decoder_.check_file(end_offset) : status;
}

Status NativeSampleWorker::decode(const SampleTask& task, LoadedPixels* pixels, SampleTimings* timings) noexcept {
    if (const Status status = task.file->status(); !status.is_ok()) return status;
    return is_cancelled(task) ? kCancelledStatus : decode_file(task, pixels, timings);
}

// A file that was read, or its record.
Status NativeSampleWorker::decode_file(const SampleTask& task, LoadedPixels* pixels, SampleTimings* timings) noexcept {
    if (!options_.is_native_jpeg_allowed && !task.file->has_record()) return Status::unsupported(kNoLibjpegTurbo);
    ImageSize size;
    if (const Status status = find_size(task.file, &size, timings); !status.is_ok()) return status;
    // An image that the transform cannot be applied to is decoded as well: a damaged one is damaged first.
    const Status choices = task.choices->resolve(task, size);
    if (!choices.is_ok() && choices.code != StatusCode::kInvalidGeometry) return choices;
    pixels->region = choices.is_ok() ? task.report->source_region(*task.source) : Region{0, 0, size.width, size.height};
    const bool has_pixels = task.file->has_record() && task.source->first_steps != nullptr;
    const bool is_for_device = task.wire != nullptr && task.source->first_steps == nullptr && choices.is_ok();
    const Status decoded = !task.file->has_record() ? decode_contents(task, is_for_device, pixels, timings)
                           : choices.is_ok() || !has_pixels
                               ? decode_record(task, size, pixels, timings)
                               : decode_instead_of_record(task.file, size, pixels, timings);
    if (!decoded.is_ok()) return decoded;
    if (!choices.is_ok()) return choices;
    if (pixels->is_on_wire) return Status::ok();
    if (is_cancelled(task)) return kCancelledStatus;
    return make_first_steps(task, pixels, timings);
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

// A file without a record that is believed.
Status NativeSampleWorker::decode_contents(const SampleTask& task, bool is_for_device, LoadedPixels* pixels,
                                           SampleTimings* timings) noexcept {
    FileRecordCache* const records = records_for(task.source->first_steps.get());
    const RecordedFile* const recorded = records == nullptr ? nullptr : task.file->recorded();
    if (recorded != nullptr && recorded->has_key()) records->count(recorded->outcome());
    const ByteSpan contents = task.file->contents();
    Region needed;
    ScanHead head;
    const bool is_described =
        is_for_device &&
        describe_for_device(task.report->views[0], task.source->views[0].plan->resize_order(), &needed, &head);
    // A device needs the index for any region.
    const bool is_wanted = is_described || decoder_.gains_from_index(pixels->region);
    indexed_decode_.find(decoder_, contents, is_wanted, timings);
    pixels->is_on_wire = is_described && write_scan(task, needed, &head, timings);
    if (pixels->is_on_wire) return Status::ok();
    return indexed_decode_.decode_found(decoder_, pixels->region, &pixels->view, timings);
}

// Puts the sample on the wire in scan form. False: it goes there as pixels.
bool NativeSampleWorker::write_scan(const SampleTask& task, const Region& needed, ScanHead* head,
                                    SampleTimings* timings) noexcept {
    if (!indexed_decode_.describe_scan(decoder_, needed, head, timings)) return false;
    std::uint8_t* const memory = task.wire->take_scan(task.position, *head);
    if (memory == nullptr) return false;
    indexed_decode_.write_scan(decoder_, *head, {memory, head->bytes}, timings);
    return true;
}

// The record has said `size`.
Status NativeSampleWorker::decode_record(const SampleTask& task, ImageSize size, LoadedPixels* pixels,
                                         SampleTimings* timings) noexcept {
    FileRecordCache& records = *records_for(task.source->first_steps.get());
    RecordedFile& recorded = *task.file->recorded();
    const Region region = pixels->region;
    task.report->is_by_record = take_record(task, &recorded, pixels, timings);
    records.count(recorded.outcome());
    if (!task.report->is_by_record) return decode_instead_of_record(task.file, size, pixels, timings);
    return records.is_next_checked() ? check_record(task, size, region, pixels, timings) : Status::ok();
}

// Takes pixels from the file's open record. False: it does not hold, and is not open any more.
bool NativeSampleWorker::take_record(const SampleTask& task, RecordedFile* recorded, LoadedPixels* pixels,
                                     SampleTimings* timings) noexcept {
    if (task.source->first_steps == nullptr) {
        return recorded->decode(*coefficients_, pixels->region, &decoder_, &pixels->view, timings);
    }
    const PlanarImageView& image = recorded->image();
    const ImageSize size = task.report->first_steps.output_size;
    if (image.width != size.width || image.height != size.height) {
        recorded->give_up();
        return false;
    }
    show_whole(image, pixels);
    return true;
}

// Copies pixels row by row. False without memory.
bool NativeSampleWorker::pack(const LoadedPixels& pixels, AlignedBuffer* packed) const noexcept {
    const ImageSize size = pixels.size();
    if (!packed->reserve(pixel_bytes(size)).is_ok()) return false;
    ConvertJob job;
    job.width = size.width;
    job.height = size.height;
    if (pixels.are_first_steps_done) {
        kernels_.convert_rows(pixels.rows, job, packed->data());
    } else {
        kernels_.convert_strips(pixels.view, job, packed->data());
    }
    return true;
}

// A spot check: decodes the file's `region` as well, and delivers that.
Status NativeSampleWorker::check_record(const SampleTask& task, ImageSize size, const Region& region,
                                        LoadedPixels* pixels, SampleTimings* timings) noexcept {
    const std::size_t recorded_bytes = pixel_bytes(pixels->size());
    if (!pack(*pixels, &recorded_pixels_)) return Status::ok();
    LoadedPixels plain;
    plain.region = region;
    bool has_other_size = false;
    Status status = read_file_of_record(task.file, size, &has_other_size, timings);
    if (status.is_ok()) {
        const StageTimer timer(&timings->decode_ns);
        status = decoder_.decode(region, nullptr, &plain.view);
    }
    if (status.is_ok()) status = make_first_steps(task, &plain, timings);
    const bool is_undecided = is_for_fallback(status.code) && !has_other_size;
    if (is_undecided && pixels->are_first_steps_done) return Status::ok();  // pixels are in the record still
    task.report->is_by_record = false;
    *pixels = plain;
    // A file that was changed since the look-up says nothing about its record.
    const RecordedFile& recorded = *task.file->recorded();
    const bool is_of_record = recorded.path().is_empty() || task.file->facts() == recorded.version().facts;
    if (!is_undecided && is_of_record) {
        bool is_right = status.is_ok();
        if (is_right && pack(plain, &file_pixels_)) {  // without memory nothing is known, which is no difference
            is_right = pixel_bytes(plain.size()) == recorded_bytes &&
                       std::memcmp(file_pixels_.data(), recorded_pixels_.data(), recorded_bytes) == 0;
        }
        records_for(task.source->first_steps.get())->count_check(is_right, recorded.path(), recorded.directory());
    }
    return status;
}

// Reads the file whose record has said `size`, unless it was read before the record was believed, and its header.
Status NativeSampleWorker::read_file_of_record(SampleFile* file, ImageSize size, bool* has_other_size,
                                               SampleTimings* timings) noexcept {
    if (file->contents().is_empty()) {
        const RecordedFile& recorded = *file->recorded();
        read_contents(recorded.path(), recorded.directory(), file, timings);
    }
    ImageInfo info;
    Status status = file->status();
    if (status.is_ok() && !options_.is_native_jpeg_allowed) status = Status::unsupported(kNoLibjpegTurbo);
    if (status.is_ok()) status = decoder_.read_header(file->contents(), &info);
    if (!status.is_ok()) return status;
    *has_other_size = info.size.width != size.width || info.size.height != size.height;
    // The choices were made for that size. With the reference decoder they are made again.
    return *has_other_size ? Status::unsupported("a record of an image of another size") : Status::ok();
}

Status NativeSampleWorker::decode_instead_of_record(SampleFile* file, ImageSize size, LoadedPixels* pixels,
                                                    SampleTimings* timings) noexcept {
    bool has_other_size = false;
    const Status status = read_file_of_record(file, size, &has_other_size, timings);
    if (!status.is_ok()) return status;
    return indexed_decode_.decode(decoder_, file->contents(), pixels->region, &pixels->view, timings);
}

Status NativeSampleWorker::load_packed(const SampleTask& task, const PackedImageView& rgb, LoadedPixels* pixels,
                                       SampleTimings* timings) noexcept {
    if (const Status status = task.choices->resolve(task, {rgb.width, rgb.height}); !status.is_ok()) return status;
    {
        const StageTimer timer(&timings->transform_ns);
        pixels->region = task.report->source_region(*task.source);
        const Status status = executor_.load_packed(rgb.crop(pixels->region), &pixels->view);
        if (!status.is_ok()) return status;
    }
    return make_first_steps(task, pixels, timings);
}

// Applies the first steps to the pixels, if there are such and that was not done.
Status NativeSampleWorker::make_first_steps(const SampleTask& task, LoadedPixels* pixels,
                                            SampleTimings* timings) noexcept {
    if (task.source->first_steps == nullptr || pixels->are_first_steps_done) return Status::ok();
    const StageTimer timer(&timings->transform_ns);
    const TransformPlan& plan = *task.source->first_steps->plan;
    const ResolvedTransform& resolved = task.report->first_steps;
    std::size_t bytes = 0;
    std::uint8_t* const rows = plan.count_bytes(resolved.output_size, &bytes)
                                   ? first_steps_image_.begin(resolved.output_size, task.report->source_size)
                                   : nullptr;
    if (rows == nullptr) return {StatusCode::kOutOfMemory, 0, 0, "no memory for an image between two steps"};
    const Status status = executor_.run(plan, resolved, pixels->view, rows);
    if (status.is_ok()) show_whole(first_steps_image_.image(), pixels);
    return status;
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
    const TransformPlan& plan = *task.source->views[view].plan;
    return pixels.are_first_steps_done ? executor_.run(plan, resolved, crop_rows(pixels.rows, needed), destination)
                                       : executor_.run(plan, resolved, pixels.view.crop(needed), destination);
}

void NativeSampleWorker::end_sample() noexcept {
    release_scratch(scratch_bytes() > kMaxKeptScratchBytes ? ScratchRule::kLarge : ScratchRule::kUnneeded);
}

void NativeSampleWorker::release_large_scratch() noexcept { release_scratch(ScratchRule::kLarge); }

void NativeSampleWorker::release_scratch(ScratchRule rule) noexcept {
    decoder_.release_scratch(rule);
    indexed_decode_.release_scratch(rule);
    recorded_pixels_.release(rule);
    file_pixels_.release(rule);
    executor_.release_scratch(rule);
    first_steps_image_.release_scratch(rule);
}

std::size_t NativeSampleWorker::scratch_bytes() const noexcept {
    return decoder_.scratch_bytes() + indexed_decode_.scratch_bytes() + recorded_pixels_.capacity() +
           file_pixels_.capacity() + executor_.scratch_bytes() + first_steps_image_.scratch_bytes();
}

}  // namespace fastload

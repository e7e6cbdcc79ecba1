#include "engine/sample/native_sample_worker.h"

#include <optional>
#include <utility>

#include "base/content_hash.h"
#include "engine/sample/sample_timings.h"
#include "image/pixels/pixel_buffers.h"
#include "image/plan/pixel_record.h"

namespace fastload {
namespace {

constexpr const char* kNoLibjpegTurbo = "the installed Pillow has no libjpeg-turbo";
constexpr Status kCancelledStatus = {StatusCode::kCancelled, 0, 0, ""};

bool is_cancelled(const SampleTask& task) noexcept {
    return task.is_cancelled != nullptr && task.is_cancelled->load(std::memory_order_relaxed);
}

// Of an image behind the first steps.
void show_whole(const PlanarImageView& image, LoadedPixels* pixels) noexcept {
    pixels->rows = image;
    pixels->region = {0, 0, image.width, image.height};
    pixels->is_behind_first_steps = true;
}

// Of an image as records have it, see planes_at().
std::uint64_t sum_of(const HashKey& key, const PlanarImageView& image) noexcept {
    return content_sum(key, {image.planes[0], pixel_bytes({image.width, image.height})});
}

}  // namespace

NativeSampleWorker::NativeSampleWorker(const KernelTable& kernels, const NativeWorkerOptions& options)
    : options_(options),
      coefficients_(options.is_native_jpeg_allowed && options.cache != nullptr ? options.cache->coefficients()
                                                                               : nullptr),
      pixels_(options.cache != nullptr ? options.cache->pixels() : nullptr),
      decoder_(kernels, options.decode_limits),
      indexed_decode_(options.has_indexes ? options.cache : nullptr),
      recorded_decode_(kernels, options.decode_limits),
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
    const std::int64_t opened_ns = system_time_ns();
    read_contents(path, directory, file, timings);
    if (!recorded->has_key() || !file->status().is_ok()) return;
    const StageTimer timer(&timings->cache_ns);
    recorded->note_read(file->facts(), opened_ns);
    if (records->checks_contents()) {
        recorded->find(*records, file->facts(), file->contents(), options_.decode_limits, part);
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
bool NativeSampleWorker::open_record(FileRecordCache* records, const StepsHash& steps, ByteSpan path,
                                     const WorkingDirectory* directory, jpeg::ReadPart part, RecordedFile* recorded,
                                     SampleTimings* timings) const noexcept {
    std::uint64_t found_in_ns = 0;
    bool is_found = false;
    {
        const StageTimer timer(&found_in_ns);
        if (recorded->begin(*records, path, directory, steps) && !records->checks_contents()) {
            FileFacts facts;
            const bool is_believed =
                records->find_facts(path, directory, &facts) && facts.size <= options_.max_file_bytes;
            is_found = is_believed && recorded->find(*records, facts, {}, options_.decode_limits, part);
            if (!is_believed) recorded->forget();
        }
    }
    recorded->note_found_in(found_in_ns);
    timings->cache_ns += found_in_ns;
    timings->record_ns += found_in_ns;
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
    if (!task.file->is_read()) read(task, jpeg::ReadPart::kNeeded, timings);
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
    task.report->read_version.reset();
    task.report->pending_check.reset();
    if (const Status status = task.file->status(); !status.is_ok()) return status;
    if (is_cancelled(task)) return kCancelledStatus;
    const Status status = decode_file(task, pixels, timings);
    if (is_for_fallback(status.code)) note_read_version(task);
    return status;
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
    bool has_other_size = false;
    const bool is_plain = !task.file->has_record() || (!choices.is_ok() && task.source->first_steps != nullptr);
    const Status decoded = !is_plain ? decode_record(task, size, pixels, timings)
                           : task.file->has_record()
                               ? decode_behind_record(task.file, size, Index::kUsed, &has_other_size, pixels, timings)
                               : decode_contents(task, pixels, timings);
    if (!decoded.is_ok()) return decoded;
    if (!choices.is_ok()) return choices;
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

// Of a file of which no record is believed.
Status NativeSampleWorker::decode_contents(const SampleTask& task, LoadedPixels* pixels,
                                           SampleTimings* timings) noexcept {
    FileRecordCache* const records = records_for(task.source->first_steps.get());
    RecordedFile* const recorded = records == nullptr ? nullptr : task.file->recorded();
    if (recorded != nullptr && recorded->has_key()) {
        records->count(recorded->version(), recorded->outcome());
        if (records == coefficients_ && recorded->is_wanted(*records) &&
            recorded_decode_.make(records, *recorded, task.file->contents(), pixels->region, &decoder_, &pixels->view,
                                  timings)) {
            return Status::ok();
        }
        if (records == pixels_ &&
            KeptImage::is_wanted(recorded->opened(), *records, task.report->first_steps.output_size)) {
            const StageTimer timer(&timings->decode_ns);  // no index of what is not decoded again
            return decoder_.decode(pixels->region, &pixels->view);
        }
    }
    return indexed_decode_.decode(decoder_, task.file->contents(), pixels->region, &pixels->view, timings);
}

// `size` is what the record has said.
Status NativeSampleWorker::decode_record(const SampleTask& task, ImageSize size, LoadedPixels* pixels,
                                         SampleTimings* timings) noexcept {
    FileRecordCache& records = *records_for(task.source->first_steps.get());
    RecordedFile& recorded = *task.file->recorded();
    const Region region = pixels->region;
    std::uint64_t hit_ns = recorded.found_in_ns();
    bool is_taken = false;
    {
        const StageTimer timer(&hit_ns);
        is_taken = take_record(task, &recorded, pixels, timings);
    }
    records.count(recorded.version(), recorded.outcome());
    if (is_taken) records.pace().count_hit(hit_ns);
    const bool is_checked = is_taken && records.is_next_checked() && recorded_decode_.remember(*pixels);
    task.report->is_by_record = is_taken && !is_checked;
    if (task.report->is_by_record) return Status::ok();

    pixels->region = region;
    pixels->is_behind_first_steps = false;
    std::uint64_t file_ns = 0;
    bool has_other_size = false;
    Status status;
    {
        const StageTimer timer(&file_ns);
        const Index index = is_checked ? Index::kIgnored : Index::kUsed;
        status = decode_behind_record(task.file, size, index, &has_other_size, pixels, timings);
        if (status.is_ok()) status = make_first_steps(task, pixels, timings);
    }
    // A file that was changed since the record was looked for says nothing about it.
    const bool is_of_record = recorded.path().is_empty() || task.file->facts() == recorded.version().facts;
    if (!is_checked || !is_of_record) return status;
    if (has_other_size || !is_for_fallback(status.code)) {
        records.pace().count_check(file_ns);
        const bool is_right = status.is_ok() && recorded_decode_.equals(*pixels);
        records.count_check(is_right, recorded.path(), recorded.directory());
    } else if (&records == pixels_) {
        note_check(recorded, task.report);
    }
    return status;
}

// For a file that the reference decoder is going to read.
void NativeSampleWorker::note_check(const RecordedFile& recorded, SampleReport* report) const noexcept {
    std::string path = absolute_path(recorded.path(), recorded.directory());
    report->pending_check = {std::move(path), recorded.version().facts, recorded.size(),
                             sum_of(pixels_->key(), recorded.image())};
}

// Where the file was changed before the reference decoder had read it nothing is known.
void NativeSampleWorker::end_check(bool is_right, SampleReport* report) const noexcept {
    const PendingCheck check = *std::exchange(report->pending_check, std::nullopt);
    const ByteSpan path{reinterpret_cast<const std::uint8_t*>(check.path.data()), check.path.size()};
    FileFacts facts;
    if (pixels_->find_facts(path, nullptr, &facts) && facts == check.facts) {
        pixels_->count_check(is_right, path, nullptr);
    }
}

// Pixels by the file's open record. False: it does not hold, and is not open any more.
bool NativeSampleWorker::take_record(const SampleTask& task, RecordedFile* recorded, LoadedPixels* pixels,
                                     SampleTimings* timings) noexcept {
    if (task.source->first_steps == nullptr) {
        return recorded_decode_.decode(*coefficients_, recorded, pixels->region, &decoder_, &pixels->view, timings);
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

// By the file whose record has said `size`, if that is its size.
Status NativeSampleWorker::decode_behind_record(SampleFile* file, ImageSize size, Index index, bool* has_other_size,
                                                LoadedPixels* pixels, SampleTimings* timings) noexcept {
    Status status = read_behind_record(file, timings);
    ImageInfo info;
    if (status.is_ok() && !options_.is_native_jpeg_allowed) status = Status::unsupported(kNoLibjpegTurbo);
    if (status.is_ok()) status = decoder_.read_header(file->contents(), &info);
    if (!status.is_ok()) return status;
    *has_other_size = info.size.width != size.width || info.size.height != size.height;
    // The choices were made for that size. With what the reference decoder decodes they are made again.
    if (*has_other_size) return Status::unsupported("a record of an image of another size");
    if (index == Index::kUsed) {
        return indexed_decode_.decode(decoder_, file->contents(), pixels->region, &pixels->view, timings);
    }
    const StageTimer timer(&timings->decode_ns);
    return decoder_.decode(pixels->region, nullptr, &pixels->view);
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
    const std::optional<PendingCheck>& check = task.report->pending_check;
    if (check && (check->source_size.width != rgb.width || check->source_size.height != rgb.height)) {
        end_check(false, task.report);
    }
    if (const Status status = task.choices->resolve(task, {rgb.width, rgb.height}); !status.is_ok()) return status;
    {
        const StageTimer timer(&timings->transform_ns);
        const Region region = task.report->source_region(*task.source);
        pixels->region = region;
        const Status status = executor_.load_packed(rgb.crop(region), &pixels->view);
        if (!status.is_ok()) return status;
    }
    const Status status = make_first_steps(task, pixels, timings);
    if (status.is_ok() && check) end_check(sum_of(pixels_->key(), pixels->rows) == check->sum, task.report);
    return status;
}

// Makes the pixels those of the image behind the first steps, if there are such and that was not done, and keeps them.
Status NativeSampleWorker::make_first_steps(const SampleTask& task, LoadedPixels* pixels,
                                            SampleTimings* timings) noexcept {
    if (task.source->first_steps == nullptr || pixels->is_behind_first_steps) return Status::ok();
    {
        const StageTimer timer(&timings->transform_ns);
        const Status status = kept_image_.make(task, pixels->view, &executor_);
        if (!status.is_ok()) return status;
    }
    show_whole(kept_image_.image(), pixels);
    if (pixels_ == nullptr) return Status::ok();
    const StageTimer timer(&timings->cache_ns);
    if (const std::optional<ReadVersion>& read = task.report->read_version; read) {
        pixels->is_kept = kept_image_.keep(read->opened, *pixels_, [&] { return read->stamp; });
    } else if (const RecordedFile* const recorded = task.file == nullptr ? nullptr : task.file->recorded();
               recorded != nullptr && recorded->has_key()) {
        pixels->is_kept = kept_image_.keep(recorded->opened(), *pixels_, [&] {
            return pixels_->stamp_of(recorded->version(), task.file->contents());
        });
    }
    return Status::ok();
}

// For a file that the reference decoder is going to read: what it makes of it is kept as that of the file as it was
// before. Where it has changed in between, nobody believes that.
void NativeSampleWorker::note_read_version(const SampleTask& task) const noexcept {
    if (task.source->first_steps == nullptr || pixels_ == nullptr) return;
    const RecordedFile* const recorded = task.file->recorded();
    if (recorded == nullptr || !recorded->has_key() ||
        !pixels_->is_settled(recorded->version(), recorded->opened_ns())) {
        return;
    }
    task.report->read_version = {recorded->opened(), pixels_->stamp_of(recorded->version(), task.file->contents())};
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
    return pixels.is_behind_first_steps ? executor_.run(plan, resolved, crop_rows(pixels.rows, needed), destination)
                                        : executor_.run(plan, resolved, pixels.view.crop(needed), destination);
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
    kept_image_.release_scratch(rule);
}

std::size_t NativeSampleWorker::scratch_bytes() const noexcept {
    return decoder_.scratch_bytes() + indexed_decode_.scratch_bytes() + recorded_decode_.scratch_bytes() +
           executor_.scratch_bytes() + kept_image_.scratch_bytes();
}

}  // namespace fastload

#include "engine/sample/pixel_builder.h"

#include <cstring>
#include <utility>

#include "image/plan/pixel_record.h"

namespace fastload {
namespace {

// First steps do not draw.
class NoChoices final : public SampleChoices {
  public:
    Status resolve(const SampleTask& task, ImageSize source_size) noexcept override {
        CounterDraws none(0, 0, 0);
        return task.source->resolve(&none, source_size, task.report);
    }
};

NativeWorkerOptions without_indexes(NativeWorkerOptions options) {
    options.has_indexes = false;
    return options;
}

}  // namespace

PixelBuilder::PixelBuilder(const KernelTable& kernels, const NativeWorkerOptions& options,
                           std::shared_ptr<const FirstSteps> first_steps)
    : cache_(options.cache),
      pixels_(*cache_->pixels()),
      limits_(options.decode_limits),
      worker_(kernels, without_indexes(options)),
      file_(nullptr) {
    source_.first_steps = std::move(first_steps);
    report_.reset(source_);
}

// The file that was read, as far as the first steps go. kNone where native code has no pixels of it.
Status PixelBuilder::decode(LoadedPixels* pixels, BuildOutcome* outcome) noexcept {
    *outcome = BuildOutcome::kUnread;
    if (!file_.status().is_ok()) return file_.status();
    NoChoices choices;
    SampleTask task;
    task.source = &source_;
    task.file = &file_;
    task.report = &report_;
    task.choices = &choices;
    const Status status = worker_.decode(task, pixels, &timings_);
    *outcome = status.is_ok() ? BuildOutcome::kAbsent : BuildOutcome::kNone;
    return status.code == StatusCode::kOutOfMemory ? status : Status::ok();
}

Status PixelBuilder::build(ByteSpan path, BuildOutcome* outcome) noexcept {
    worker_.read_for(source_.first_steps.get(), path, nullptr, jpeg::ReadPart::kNeeded, &file_, &timings_);
    Status status;
    if (file_.has_record()) {
        *outcome = BuildOutcome::kKnown;
    } else {
        LoadedPixels pixels;
        status = decode(&pixels, outcome);
        if (status.is_ok() && *outcome == BuildOutcome::kAbsent) {
            const RecordedFile& read = *file_.recorded();
            const bool is_settled = read.has_key() && pixels_.is_settled(read.version(), read.opened_ns());
            *outcome = pixels.is_kept ? BuildOutcome::kKept
                       : is_settled   ? BuildOutcome::kNotKept
                                      : BuildOutcome::kTooNew;
        }
    }
    file_.forget();
    worker_.end_sample();
    return status;
}

Status PixelBuilder::compare(ByteSpan path, BuildOutcome* outcome) noexcept {
    FileFacts facts;
    const bool is_there = recorded_.begin(pixels_, path, nullptr, source_.first_steps->hash) &&
                          pixels_.find_facts(path, nullptr, &facts) && recorded_.find(pixels_, facts, {}, limits_);
    worker_.read_contents(path, nullptr, &file_, &timings_);
    LoadedPixels pixels;
    const Status status = decode(&pixels, outcome);
    if (status.is_ok() && is_there) {
        const PlanarImageView& known = recorded_.image();
        const bool is_same = *outcome == BuildOutcome::kAbsent && known.width == pixels.rows.width &&
                             known.height == pixels.rows.height &&
                             std::memcmp(known.planes[0], pixels.rows.planes[0], pixel_bytes(pixels.size())) == 0;
        *outcome = is_same ? BuildOutcome::kKnown : BuildOutcome::kDifferent;
    }
    recorded_.forget();
    file_.forget();
    worker_.end_sample();
    return status;
}

}  // namespace fastload

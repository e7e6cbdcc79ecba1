#include "engine/sample/sample_decoder.h"

#include <new>
#include <utility>

namespace fastload {
namespace {

// Made at once: no other sample draws from the same numbers.
class OwnChoices final : public SampleChoices {
  public:
    // `source` is the one of the tasks, with one view. `worker` has read the image's header if there are several plans.
    OwnChoices(SampleDecoder::Plans plans, DrawSource* draws, SampleSource* source, const NativeSampleWorker& worker,
               const SampleDecoder::Steps& first_steps = nullptr) noexcept
        : plans_(plans), draws_(draws), source_(*source), worker_(worker) {
        source_.views.front().plan = plans[0];
        source_.first_steps = first_steps;
    }

    Status resolve(const SampleTask& task, ImageSize source_size) noexcept override {
        if (plans_.size() > 1) {
            int orientation = 1;
            if (const Status status = worker_.read_orientation(&orientation); !status.is_ok()) return status;
            source_.views.front().plan = plans_[static_cast<std::size_t>(orientation) - 1];
        }
        return source_.resolve(draws_, source_size, task.report);
    }

  private:
    const SampleDecoder::Plans plans_;
    DrawSource* const draws_;
    SampleSource& source_;
    const NativeSampleWorker& worker_;
};

}  // namespace

SampleDecoder::SampleDecoder(const KernelTable& kernels, const NativeWorkerOptions& options)
    : worker_(kernels, options), file_(nullptr) {
    source_.views.resize(1);
    report_.views.resize(1);
}

Status SampleDecoder::run(ByteSpan path, Plans plans, DrawSource* draws, DecodedSample* sample,
                          const WorkingDirectory* directory, const Steps& first_steps) noexcept {
    OwnChoices choices(plans, draws, &source_, worker_, first_steps);
    return make(&choices, sample, [&](const SampleTask& task, LoadedPixels* pixels) {
        if (plans.size() > 1) {  // a record has no orientation
            worker_.read_contents(path, directory, &file_, &timings_);
        } else {
            worker_.read_for(first_steps.get(), path, directory, jpeg::ReadPart::kNeeded, &file_, &timings_);
        }
        return worker_.decode(task, pixels, &timings_);
    });
}

Status SampleDecoder::run_with_contents(ByteSpan contents, Plans plans, DrawSource* draws, DecodedSample* sample,
                                        const FileVersion* opened) noexcept {
    OwnChoices choices(plans, draws, &source_, worker_);
    return make(&choices, sample, [&](const SampleTask& task, LoadedPixels* pixels) {
        worker_.take_contents(contents, opened, &file_, &timings_);
        return worker_.decode(task, pixels, &timings_);
    });
}

bool SampleDecoder::find_opened(int descriptor, ByteSpan path, FileVersion* opened) const noexcept {
    FileRecordCache* const coefficients = worker_.coefficients();
    return coefficients != nullptr && coefficients->find_opened(descriptor, path, opened);
}

Status SampleDecoder::run_with_pixels(const PackedImageView& rgb, const Plan& plan, DrawSource* draws,
                                      DecodedSample* sample, const Steps& first_steps) noexcept {
    OwnChoices choices({&plan, 1}, draws, &source_, worker_, first_steps);
    return make(&choices, sample, [&](const SampleTask& task, LoadedPixels* pixels) {
        return worker_.load_packed(task, rgb, pixels, &timings_);
    });
}

// Makes the sample of what `load(task, pixels)` loads.
template <typename Load>
Status SampleDecoder::make(SampleChoices* choices, DecodedSample* sample, Load load) noexcept {
    const Status status = make_sample(choices, sample, load);
    file_.release_scratch(ScratchRule::kLarge);
    worker_.end_sample();
    return status;
}

template <typename Load>
Status SampleDecoder::make_sample(SampleChoices* choices, DecodedSample* sample, Load load) noexcept {
    SampleTask task;
    task.source = &source_;
    task.file = &file_;
    task.report = &report_;
    task.choices = choices;
    LoadedPixels pixels;
    const Status status = load(task, &pixels);
    file_.forget();
    if (!status.is_ok()) return status;
    const ImageSize size = report_.views.front().output_size;
    sample->size = size;
    if (!source_.views.front().plan->count_bytes(size, &sample->size_bytes)) {
        return {StatusCode::kOutOfMemory, 0, 0, "the image is too large"};
    }
    std::uint8_t* destination = sample->place.data();
    if (sample->place.size() != sample->size_bytes) {
        sample->bytes.reset(new (std::nothrow) std::uint8_t[sample->size_bytes]);
        if (sample->bytes == nullptr) return {StatusCode::kOutOfMemory, 0, 0, "no memory for the image"};
        destination = sample->bytes.get();
    }
    return worker_.write(task, pixels, 0, destination, &timings_);
}

SampleTimings SampleDecoder::take_timings() noexcept { return std::exchange(timings_, {}); }

}  // namespace fastload

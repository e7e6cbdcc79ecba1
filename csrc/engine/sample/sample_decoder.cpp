#include "engine/sample/sample_decoder.h"

#include <new>
#include <utility>

namespace fastload {
namespace {

// Made at once: no other sample draws from the same numbers.
class OwnChoices final : public SampleChoices {
  public:
    explicit OwnChoices(DrawSource* draws) noexcept : draws_(draws) {}

    Status resolve(const SampleTask& task, ImageSize source_size) noexcept override {
        return task.source->resolve(draws_, source_size, task.report);
    }

  private:
    DrawSource* const draws_;
};

}  // namespace

SampleDecoder::SampleDecoder(const KernelTable& kernels, const NativeWorkerOptions& options)
    : worker_(kernels, options), file_(nullptr) {
    source_.views.resize(1);
    report_.views.resize(1);
}

Status SampleDecoder::run(ByteSpan path, const Plan& plan, DrawSource* draws, DecodedSample* sample,
                          const WorkingDirectory* directory) noexcept {
    return make(plan, draws, sample, [&](const SampleTask& task, LoadedPixels* pixels) {
        worker_.read_file(path, directory, &file_, &timings_);
        return worker_.decode(task, pixels, &timings_);
    });
}

Status SampleDecoder::run_with_contents(ByteSpan contents, const Plan& plan, DrawSource* draws,
                                        DecodedSample* sample) noexcept {
    return make(plan, draws, sample, [&](const SampleTask& task, LoadedPixels* pixels) {
        file_.view(contents);
        return worker_.decode(task, pixels, &timings_);
    });
}

Status SampleDecoder::run_with_pixels(const PackedImageView& rgb, const Plan& plan, DrawSource* draws,
                                      DecodedSample* sample) noexcept {
    return make(plan, draws, sample, [&](const SampleTask& task, LoadedPixels* pixels) {
        return worker_.load_packed(task, rgb, pixels, &timings_);
    });
}

// Makes the sample of what `load(task, pixels)` loads.
template <typename Load>
Status SampleDecoder::make(const Plan& plan, DrawSource* draws, DecodedSample* sample, Load load) noexcept {
    OwnChoices choices(draws);
    source_.views.front().plan = plan;
    SampleTask task;
    task.source = &source_;
    task.file = &file_;
    task.report = &report_;
    task.choices = &choices;
    LoadedPixels pixels;
    const Status status = load(task, &pixels);
    file_.forget();
    if (!status.is_ok()) return status;
    const ImageSize size = report_.views.front().output_size;
    sample->size = size;
    if (!plan->count_bytes(size, &sample->size_bytes)) {
        return {StatusCode::kOutOfMemory, 0, 0, "the image is too large"};
    }
    sample->bytes.reset(new (std::nothrow) std::uint8_t[sample->size_bytes]);
    if (sample->bytes == nullptr) return {StatusCode::kOutOfMemory, 0, 0, "no memory for the image"};
    return worker_.write(task, pixels, 0, sample->bytes.get(), &timings_);
}

SampleTimings SampleDecoder::take_timings() noexcept { return std::exchange(timings_, {}); }

}  // namespace fastload

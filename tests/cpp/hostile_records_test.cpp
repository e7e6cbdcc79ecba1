// Records that an attacker with the key made for existing files: all checks hold, and the rest may be anything.

#include "check.h"
#include "coefficient_records.h"
#include "engine/cache/file_record_cache.h"
#include "engine/sample/native_sample_worker.h"
#include "engine/sample/sample_decoder.h"
#include "image/plan/pixel_record.h"
#include "image/steps/crop.h"
#include "image/steps/resize.h"
#include "kernels/dispatch.h"
#include "picture_store.h"
#include "pixel_records.h"
#include "plan_steps.h"

namespace fastload {
namespace {

using namespace testing;

constexpr int kCount = 600;  // of each kind

std::int32_t up_to(std::mt19937* random, std::uint32_t most) {
    return static_cast<std::int32_t>(1 + (*random)() % most);
}

// Changes up to seven bytes of the record, from `first` on.
void exchange_bytes(std::mt19937* random, std::size_t first, RecordBytes* record) {
    for (std::uint32_t n = (*random)() % 8; n > 0 && first < record->size(); --n) {
        (*record)[first + (*random)() % (record->size() - first)] = static_cast<std::uint8_t>((*random)());
    }
}

template <typename T>
void put_number(std::size_t at, T number, RecordBytes* record) {
    std::memcpy(record->data() + at, &number, sizeof number);
}

// Makes a record of another image, with other blocks, or without some of them.
void make_hostile_coefficients(std::mt19937* random, RecordBytes* record) {
    constexpr std::size_t kWidth = offsetof(jpeg::CoefficientHead, width);
    constexpr std::size_t kHeight = offsetof(jpeg::CoefficientHead, height);
    constexpr std::size_t kFactors = offsetof(jpeg::CoefficientHead, factors);
    switch ((*random)() % 8) {
        case 0:
            return put_number(kWidth, up_to(random, 400), record);
        case 1:  // the number of MCU rows stays
            return put_number(kHeight, 64 + up_to(random, 16), record);
        case 2:  // the vertical factors stay
            (*record)[kFactors] = static_cast<std::uint8_t>(up_to(random, 4) << 4 | 2);
            (*record)[kFactors + 1] = static_cast<std::uint8_t>(up_to(random, 4) << 4 | 1);
            return;
        case 3:
            return exchange_bytes(random, kWidth, record);
        case 4:
            return record->resize(record->size() - (*random)() % 1500);
        case 5: {
            const std::size_t entry = (*random)() % 30;
            return put_number(sizeof(jpeg::CoefficientHead) + 4 * entry, (*random)() % 4096, record);
        }
        default:
            return exchange_bytes(random, sizeof(jpeg::CoefficientHead), record);
    }
}

// Makes a record with other sizes or other pixels, as many as the sizes need or another number.
void make_hostile_pixels(std::mt19937* random, RecordBytes* record) {
    constexpr std::int32_t kOdd[] = {0, -1, 1 << 20, 2147483647, -2147483647 - 1};
    ImageSize sizes[2];
    std::memcpy(sizes, record->data() + kPixelSizes, sizeof sizes);
    for (ImageSize& size : sizes) {
        if ((*random)() % 4 == 0) std::swap(size.width, size.height);
        if ((*random)() % 4 == 0) size.width = up_to(random, 300);
        if ((*random)() % 4 == 0) size.height = up_to(random, 100);
        if ((*random)() % 16 == 0) size.width = kOdd[(*random)() % 5];
    }
    std::memcpy(record->data() + kPixelSizes, sizes, sizeof sizes);
    const bool is_small = sizes[1].width > 0 && sizes[1].width < 1000;
    if (is_small && (*random)() % 4 != 0) record->resize(pixel_record_bytes(sizes[1]), 77);
    if ((*random)() % 8 == 0) record->resize(record->size() - (*random)() % (record->size() - kPixelHeadBytes));
    exchange_bytes(random, kPixelHeadBytes, record);
}

}  // namespace

TEST_CASE(hostile_coefficient_records_give_an_image_or_a_status) {
    PictureStore store(RecordKind::kCoefficients);
    const RecordBytes whole = record_of(*select_kernel_table(), kPictureFile);
    std::mt19937 random(1);
    for (int i = 0; i < kCount; ++i) {
        const FileVersion version = store.new_file(i, {});
        RecordBytes record = whole;
        const RecordStamp stamp = store.stamp_of(version);
        std::memcpy(record.data(), stamp.data(), stamp.size());
        make_hostile_coefficients(&random, &record);
        static_cast<void>(put_sums_right(&record, version.key.hash.high));
        store.put(version, view_of(record));
    }
    store.publish();

    SampleDecoder decoder(*select_kernel_table(), store.options());
    SampleDecoder plain_decoder(*select_kernel_table(), {});
    const auto crop = make_plan({placed(sized<RandomResizedCrop>(24, 20))});
    const auto whole_image = make_plan({});
    for (int i = 0; i < kCount; ++i) {
        const SampleDecoder::Plan plan = i % 8 == 0 ? whole_image : crop;
        const std::string path = store.path(i);
        const std::uint64_t hits = store.files().counters().hits;
        CounterDraws draws(1, 2, static_cast<std::uint64_t>(i));
        CounterDraws same_draws = draws;
        DecodedSample result;
        const Status status = decoder.run(bytes_of(path), {&plan, 1}, &draws, &result);
        if (!status.is_ok()) continue;
        std::size_t size_bytes = 0;
        CHECK(plan->count_bytes(result.size, &size_bytes));
        CHECK_EQUAL(result.size_bytes, size_bytes);
        if (plan == crop) CHECK(result.size.width == 24 && result.size.height == 20);
        if (store.files().counters().hits != hits) continue;
        DecodedSample plain;
        CHECK(plain_decoder.run(bytes_of(path), {&plan, 1}, &same_draws, &plain).is_ok());
        CHECK_EQUAL(result.size_bytes, plain.size_bytes);
        CHECK(std::equal(result.bytes.get(), result.bytes.get() + size_bytes, plain.bytes.get()));
    }
    const FileRecordCounters counters = store.files().counters();
    CHECK(counters.hits > 100);
    CHECK(counters.damaged > 100);
}

namespace {

// Loads an image as it is after its first steps, as an engine does.
class PixelLoader final : public SampleChoices {
  public:
    PixelLoader(const NativeWorkerOptions& options, const SampleSource& source)
        : worker_(*select_kernel_table(), options), file_(nullptr), source_(source) {
        report_.reset(source_);
    }
    Status resolve(const SampleTask& task, ImageSize source_size) noexcept override {
        CounterDraws draws(1, 2, static_cast<std::uint64_t>(task.sample_index));
        return task.source->resolve(&draws, source_size, task.report);
    }
    Status load(int number, const std::string& path, RecordBytes* image) {
        SampleTask task;
        task.source = &source_;
        task.sample_index = number;
        std::uint8_t* const batch = image->data();
        task.images = &batch;
        task.file = &file_;
        task.report = &report_;
        task.choices = this;
        worker_.read_for(source_.first_steps.get(), bytes_of(path), nullptr, jpeg::ReadPart::kNeeded, &file_,
                         &timings_);
        report_.is_by_record = false;
        const Status status = worker_.run(task, &timings_);
        file_.forget();
        return status;
    }
    bool was_by_record() const { return report_.is_by_record; }

  private:
    NativeSampleWorker worker_;
    SampleFile file_;
    const SampleSource& source_;
    SampleReport report_;
    SampleTimings timings_;
};

}  // namespace

TEST_CASE(hostile_pixel_records_give_an_image_or_a_status) {
    ResizeShorterSide resize;
    resize.size = 30;
    auto first_steps = std::make_shared<FirstSteps>();
    first_steps->plan = make_plan({placed(resize)});
    first_steps->hash[0] = 1;
    SampleSource source;
    source.first_steps = first_steps;
    source.views = {{make_plan({placed(sized<RandomCrop>(24, 20), 1)}), std::size_t{3} * 24 * 20}};

    PictureStore store(RecordKind::kPixels);
    PixelRecordWriter writer;
    std::mt19937 random(1);
    for (int i = 0; i < kCount; ++i) {
        const FileVersion version = store.new_file(i, first_steps->hash);
        const std::uint64_t salt = version.key.hash.high;
        const ImageSize size = {102, 30};
        std::memset(writer.begin(size, {272, 80}), 55, pixel_bytes(size));
        const ByteSpan whole = writer.finish(record_key(), salt, store.stamp_of(version));
        RecordBytes record(whole.begin(), whole.end());
        make_hostile_pixels(&random, &record);
        put_pixel_sums_right(record_key(), salt, &record);
        store.put(version, view_of(record));
    }
    store.publish();

    PixelLoader loader(store.options(), source);
    PixelLoader plain_loader({}, source);
    RecordBytes image(source.views[0].sample_bytes);
    RecordBytes plain = image;
    int by_record = 0;
    int refused = 0;
    for (int i = 0; i < kCount; ++i) {
        const bool is_ok = loader.load(i, store.path(i), &image).is_ok();
        refused += is_ok ? 0 : 1;
        by_record += is_ok && loader.was_by_record() ? 1 : 0;
        if (!is_ok || loader.was_by_record()) continue;
        CHECK(plain_loader.load(i, store.path(i), &plain).is_ok());
        CHECK(image == plain);
    }
    CHECK(by_record > 50);
    CHECK(store.files().counters().damaged > 50);
    CHECK(refused > 10);
}

}  // namespace fastload

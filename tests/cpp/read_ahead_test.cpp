// Readers read a sample's record completely: nothing is left to be read when the sample's choices are made.

#include "check.h"
#include "hooked_calls.h"
#include "image/plan/pixel_record.h"
#include "image/steps/crop.h"
#include "image/steps/resize.h"
#include "io/sample_index.h"
#include "kernels/dispatch.h"
#include "picture_store.h"
#include "plan_steps.h"

namespace fastload {
namespace {

using namespace testing;

constexpr ImageSize kOutput = {24, 20};
constexpr std::size_t kImageBytes = std::size_t{3} * kOutput.width * kOutput.height;

// One file, whose record is in the store, and the sample made of it.
class PictureSample final : public SampleChoices {
  public:
    explicit PictureSample(RecordKind kind) : kind_(kind), store_(kind) {
        if (kind == RecordKind::kPixels) {
            ResizeShorterSide resize;
            resize.size = 30;
            auto first_steps = std::make_shared<FirstSteps>();
            first_steps->plan = make_plan({placed(resize)});
            source_.first_steps = first_steps;
            source_.views = {{make_plan({placed(sized<RandomCrop>(kOutput.width, kOutput.height), 1)}), kImageBytes}};
        } else {
            source_.views = {
                {make_plan({placed(sized<RandomResizedCrop>(kOutput.width, kOutput.height))}), kImageBytes}};
        }
        put_record();
        path_ = store_.path(0);
        offsets_ = {0, static_cast<std::int64_t>(path_.size())};
        source_.index =
            std::make_shared<ArenaIndex>(bytes_of(path_), Span<const std::int64_t>(offsets_.data(), 2), nullptr);
        report_.reset(source_);
        task_.source = &source_;
        task_.images = &batch_;
        task_.file = &file_;
        task_.report = &report_;
        task_.choices = this;
    }

    Status resolve(const SampleTask& task, ImageSize source_size) noexcept override {
        CounterDraws draws(1, 2, 3);
        return task.source->resolve(&draws, source_size, task.report);
    }

    NativeSampleWorker make_worker() const { return {*select_kernel_table(), store_.options()}; }
    const SampleTask& task() const { return task_; }
    SampleFile& file() { return file_; }
    const std::vector<std::uint8_t>& image() const { return image_; }
    bool was_by_record() const { return report_.is_by_record; }
    // Makes the sample without a store.
    void make_plainly() {
        NativeSampleWorker worker(*select_kernel_table(), {});
        SampleTimings timings;
        file_.forget();
        report_.is_by_record = false;
        CHECK(worker.run(task_, &timings).is_ok());
    }

  private:
    void put_record() {
        const StepsHash steps = kind_ == RecordKind::kPixels ? source_.first_steps->hash : StepsHash{};
        const FileVersion version = store_.new_file(0, steps);
        const RecordStamp stamp = store_.stamp_of(version);
        std::vector<std::uint8_t> record =
            kind_ == RecordKind::kPixels ? pixels_of(version, stamp) : record_of(*select_kernel_table(), kPictureFile);
        if (kind_ == RecordKind::kCoefficients) {
            std::copy(stamp.begin(), stamp.end(), record.begin());
            CHECK(put_sums_right(&record, version.key.hash.high));
        }
        store_.put(version, view_of(record));
        store_.publish();
    }
    std::vector<std::uint8_t> pixels_of(const FileVersion& version, const RecordStamp& stamp) {
        PixelRecordWriter writer;
        const ImageSize size = {102, 30};
        std::fill_n(writer.begin(size, {272, 80}), pixel_bytes(size), std::uint8_t{55});
        const ByteSpan record = writer.finish(record_key(), version.key.hash.high, stamp);
        return {record.begin(), record.end()};
    }

    const RecordKind kind_;
    PictureStore store_;
    std::string path_;
    std::vector<std::int64_t> offsets_;
    SampleSource source_;
    SampleFile file_{nullptr};
    SampleReport report_;
    std::vector<std::uint8_t> image_ = std::vector<std::uint8_t>(kImageBytes);
    std::uint8_t* batch_ = image_.data();
    SampleTask task_;
};

std::int64_t count_reads(const HookedCalls& calls) {
    return std::count(calls.names().begin(), calls.names().end(), "preadv");
}

}  // namespace

TEST_CASE(a_reader_reads_a_record_at_once_and_decoding_it_reads_nothing) {
    for (const RecordKind kind : {RecordKind::kCoefficients, RecordKind::kPixels}) {
        PictureSample sample(kind);
        NativeSampleWorker reader = sample.make_worker();
        NativeSampleWorker decoder = sample.make_worker();
        SampleTimings reading;
        {
            const HookedCalls calls;
            reader.read_ahead(sample.task(), &reading);
            CHECK_EQUAL(count_reads(calls), 1);
        }
        CHECK(sample.file().has_record());
        CHECK(reading.storage_ns() > 0);
        CHECK(sample.file().recorded()->waiting_bytes() > 1000);
        SampleTimings decoding;
        {
            const HookedCalls calls;
            CHECK(decoder.run(sample.task(), &decoding).is_ok());
            CHECK(calls.names().empty());
        }
        CHECK(sample.was_by_record());
        CHECK_EQUAL(decoding.storage_ns(), 0U);  // storage was not slow, nor quick
        if (kind == RecordKind::kPixels) continue;
        const std::vector<std::uint8_t> by_record = sample.image();
        sample.make_plainly();
        CHECK(!sample.was_by_record());
        CHECK(sample.image() == by_record);
    }
}

TEST_CASE(without_a_reader_the_rows_of_a_crop_alone_are_read_and_that_counts_as_reading) {
    PictureSample sample(RecordKind::kCoefficients);
    NativeSampleWorker worker = sample.make_worker();
    SampleTimings timings;
    const HookedCalls calls;
    CHECK(worker.run(sample.task(), &timings).is_ok());
    CHECK(sample.was_by_record());
    CHECK_EQUAL(count_reads(calls), 2);
    CHECK_EQUAL(sample.file().recorded()->waiting_bytes(), 0U);
    CHECK(timings.storage_ns() > 0);
    CHECK_EQUAL(timings.read_ns, 0U);
}

}  // namespace fastload

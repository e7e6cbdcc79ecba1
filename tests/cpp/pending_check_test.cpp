#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "check.h"
#include "engine/cache/decode_cache.h"
#include "engine/sample/sample_decoder.h"
#include "image/steps/resize.h"
#include "kernels/dispatch.h"
#include "plan_steps.h"
#include "running_store.h"
#include "small_picture.h"
#include "temporary_folder.h"

namespace fastload {
namespace {

using testing::bytes_of;
using testing::RecordFolder;
using testing::RunningStore;
using testing::TemporaryFolder;

constexpr std::int64_t kHour = 3'600'000'000'000;
constexpr const char* kPng = "\x89PNG\r\n\x1a\n and more";

// A file that native code does not decode, whose pixels are kept and each time checked.
class CheckedFile {
  public:
    explicit CheckedFile(const std::string& contents = kPng, bool is_native_jpeg_allowed = true)
        : path_(images_.write("a", contents)), running_(folder_, {64 * testing::kMiB, 0, true, RecordKind::kPixels}) {
        const std::shared_ptr<RecordStore> store(running_.get(), [](RecordStore*) {});
        records_ = std::make_shared<FileRecordCache>(store, Validation::kTrust, 1, kHour);
        NativeWorkerOptions options;
        options.is_native_jpeg_allowed = is_native_jpeg_allowed;
        options.cache = std::make_shared<DecodeCache>(store->key(), store, 10, records_);
        decoder_ = std::make_unique<SampleDecoder>(*select_kernel_table(), options);
        auto steps = std::make_shared<FirstSteps>();
        steps->plan = testing::make_plan({testing::placed(testing::sized<Resize>(4, 3))});
        steps->hash[0] = 1;
        first_steps_ = steps;
        load(7);
        running_.flush();
        CHECK_EQUAL(records_->counters().kept, 1U);
    }

    // Its image is one of `level` everywhere, which is delivered.
    void load(std::uint8_t level, std::int32_t width = 8) {
        begin();
        end(level, width);
    }
    void begin() { begin(path_); }
    void begin_another() { begin(images_.write("b", "another")); }
    void end(std::uint8_t level, std::int32_t width = 8) {
        const std::vector<std::uint8_t> pixels(static_cast<std::size_t>(3 * width * 6), level);
        const PackedImageView rgb = {pixels.data(), static_cast<std::size_t>(3 * width), width, 6};
        CounterDraws draws(1, 2, 3);
        DecodedSample sample;
        CHECK(decoder_->run_with_pixels(rgb, plan_, &draws, &sample, first_steps_).is_ok());
        CHECK_EQUAL(static_cast<int>(sample.bytes[0]), static_cast<int>(level));
    }
    void rewrite() { images_.write("a", "other contents"); }

    FileRecordCounters counters() const { return records_->counters(); }
    bool is_named() const { return !records_->is_on() && records_->mismatched_path() == path_; }

  private:
    void begin(const std::string& path) {
        CounterDraws draws(1, 2, 3);
        DecodedSample sample;
        const Status status = decoder_->run(bytes_of(path), plan_, &draws, &sample, nullptr, first_steps_);
        CHECK(is_for_fallback(status.code));
    }

    const RecordFolder folder_;
    TemporaryFolder images_;
    const std::string path_;
    RunningStore running_;
    std::shared_ptr<FileRecordCache> records_;
    std::unique_ptr<SampleDecoder> decoder_;
    std::shared_ptr<const FirstSteps> first_steps_;
    const SampleDecoder::Plan plan_ = testing::make_plan({});
};

}  // namespace

TEST_CASE(what_the_reference_decoder_gives_is_compared_with_the_record_once_a_hit) {
    const std::string jpeg(reinterpret_cast<const char*>(testing::kSmallPicture), sizeof testing::kSmallPicture);
    for (const bool is_native_jpeg_allowed : {true, false}) {
        CheckedFile file(is_native_jpeg_allowed ? kPng : jpeg, is_native_jpeg_allowed);
        file.load(7);
        file.end(9);  // of no hit
        CHECK_EQUAL(file.counters().hits, 1U);
        CHECK_EQUAL(file.counters().checks, 1U);
        CHECK_EQUAL(file.counters().mismatches, 0U);
        file.load(8);
        CHECK_EQUAL(file.counters().checks, 2U);
        CHECK_EQUAL(file.counters().mismatches, 1U);
        CHECK(file.is_named());
    }
}

TEST_CASE(another_size_by_the_reference_decoder_is_a_difference) {
    CheckedFile file;
    file.load(7, 9);
    CHECK_EQUAL(file.counters().checks, 1U);
    CHECK(file.is_named());
}

TEST_CASE(a_file_that_changes_before_the_reference_decoder_reads_it_says_nothing_about_its_record) {
    CheckedFile file;
    file.begin();
    file.rewrite();
    file.end(8);
    CHECK_EQUAL(file.counters().hits, 1U);
    CHECK_EQUAL(file.counters().checks, 0U);
}

TEST_CASE(a_hit_that_the_reference_decoder_does_not_decode_is_no_check_of_the_next_one) {
    CheckedFile file;
    file.begin();
    file.begin_another();
    file.end(8);
    CHECK_EQUAL(file.counters().hits, 1U);
    CHECK_EQUAL(file.counters().checks, 0U);
}

}  // namespace fastload

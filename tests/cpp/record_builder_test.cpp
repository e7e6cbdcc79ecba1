#include "engine/sample/record_builder.h"

#include "check.h"
#include "failing_allocation.h"
#include "image/steps/resize.h"
#include "kernels/dispatch.h"
#include "large_records.h"
#include "plan_steps.h"
#include "small_picture.h"
#include "temporary_folder.h"

namespace fastload {
namespace {

using namespace testing;

constexpr std::int64_t kHour = 3'600'000'000'000;

std::string file(std::size_t size = sizeof testing::kSmallPicture) {
    return {reinterpret_cast<const char*>(testing::kSmallPicture), size};
}

std::shared_ptr<const FirstSteps> first_steps(std::int32_t width) {
    auto steps = std::make_shared<FirstSteps>();
    steps->plan = testing::make_plan({testing::placed(testing::sized<Resize>(width, 30))});
    steps->hash[0] = static_cast<std::uint8_t>(width);
    return steps;
}

// A store of pixels, and its builders.
class Pixels {
  public:
    explicit Pixels(const RecordFolder& folder, std::int64_t clock_ahead_ns = kHour)
        : folder_(folder), clock_ahead_ns_(clock_ahead_ns) {
        publish();
    }
    std::unique_ptr<RecordBuilder> builder(std::int32_t width = 40) const { return builder_of(first_steps(width)); }
    std::unique_ptr<RecordBuilder> builder_of(std::shared_ptr<const FirstSteps> steps) const {
        return make_file_record_builder(*select_kernel_table(), {},
                                        {records_, build_, std::move(steps), clock_ahead_ns_});
    }
    // Ends the build; builders that are made then find its records.
    void publish() {
        if (build_ != nullptr) build_->finish();
        records_ = testing::open_built(folder_, RecordKind::kPixels);
        build_ = std::make_shared<RecordBuild>(records_, 64 * testing::kMiB);
    }
    const BuiltRecords& records() const { return *records_; }

  private:
    const RecordFolder& folder_;
    const std::int64_t clock_ahead_ns_;
    std::shared_ptr<const BuiltRecords> records_;
    std::shared_ptr<RecordBuild> build_;
};

BuildOutcome built(RecordBuilder& builder, const std::string& path) {
    BuildOutcome outcome = BuildOutcome::kUnread;
    CHECK(builder.build(bytes_of(path), &outcome).is_ok());
    return outcome;
}

BuildOutcome compared(RecordBuilder& builder, const std::string& path) {
    BuildOutcome outcome = BuildOutcome::kUnread;
    CHECK(builder.compare(bytes_of(path), &outcome).is_ok());
    return outcome;
}

}  // namespace

TEST_CASE(pixels_of_a_file_are_built_once_and_equal_it) {
    const RecordFolder folder;
    TemporaryFolder images;
    const std::string path = images.write("a.jpg", file());
    Pixels pixels(folder);
    CHECK(compared(*pixels.builder(), path) == BuildOutcome::kAbsent);
    CHECK(built(*pixels.builder(), path) == BuildOutcome::kKept);
    pixels.publish();
    CHECK(built(*pixels.builder(), path) == BuildOutcome::kKnown);
    CHECK(compared(*pixels.builder(), path) == BuildOutcome::kKnown);
    // Other steps have other pixels.
    CHECK(compared(*pixels.builder(41), path) == BuildOutcome::kAbsent);
    CHECK(built(*pixels.builder(41), path) == BuildOutcome::kKept);
    pixels.publish();
    CHECK_EQUAL(pixels.records().counters().records, 2U);
}

TEST_CASE(pixels_of_the_reference_decoder_are_built_and_compared_for_files_that_native_code_leaves_to_it) {
    const RecordFolder folder;
    TemporaryFolder images;
    const std::string path = images.write("a.png", "no JPEG");
    const std::vector<std::uint8_t> bytes(std::size_t{3} * 80 * 60, 77);
    std::vector<std::uint8_t> others = bytes;
    others[5000] ^= 64;
    const auto view_of = [](const std::vector<std::uint8_t>& pixels) {
        return PackedImageView{pixels.data(), std::size_t{3} * 80, 80, 60};
    };
    Pixels pixels(folder);
    BuildOutcome outcome = BuildOutcome::kUnread;
    {
        const auto builder = pixels.builder();
        CHECK(built(*builder, path) == BuildOutcome::kNone);
        CHECK(builder->build_with_pixels(view_of(bytes), &outcome).is_ok());
        CHECK(outcome == BuildOutcome::kKept);
    }
    pixels.publish();
    const auto builder = pixels.builder();
    CHECK(built(*builder, path) == BuildOutcome::kKnown);
    CHECK(compared(*builder, path) == BuildOutcome::kDifferent);  // as far as native code knows
    CHECK(builder->compare_with_pixels(view_of(bytes), &outcome).is_ok());
    CHECK(outcome == BuildOutcome::kKnown);
    CHECK(builder->compare_with_pixels(view_of(others), &outcome).is_ok());
    CHECK(outcome == BuildOutcome::kDifferent);
}

TEST_CASE(pixels_that_say_something_else_than_their_file_are_different) {
    const RecordFolder folder;
    TemporaryFolder images;
    const std::string path = images.write("a.jpg", file());
    Pixels pixels(folder);
    // The record is of other steps under the same hash.
    auto wrong = std::make_shared<FirstSteps>(*first_steps(40));
    wrong->plan = first_steps(41)->plan;
    CHECK(built(*pixels.builder(), path) == BuildOutcome::kKept);
    pixels.publish();
    CHECK(compared(*pixels.builder_of(wrong), path) == BuildOutcome::kDifferent);
}

TEST_CASE(files_without_pixels_and_files_that_are_too_new_are_told_apart) {
    const RecordFolder folder;
    TemporaryFolder images;
    const std::string cut = images.write("cut.jpg", file(700));
    const std::string whole = images.write("whole.jpg", file());
    Pixels pixels(folder, 0);
    const auto builder = pixels.builder();
    CHECK(built(*builder, cut) == BuildOutcome::kNone);
    CHECK(built(*builder, whole) == BuildOutcome::kTooNew);
    BuildOutcome outcome = BuildOutcome::kKept;
    CHECK(builder->build(bytes_of(images.path() + "/none.jpg"), &outcome).code == StatusCode::kOpenFailed);
    CHECK(outcome == BuildOutcome::kUnread);
}

TEST_CASE(whichever_allocation_fails_pixels_are_built_the_next_time) {
    TemporaryFolder images;
    const std::string path = images.write("a.jpg", file());
    bool has_failed = true;
    for (std::int64_t n = 1; has_failed; ++n) {
        const RecordFolder folder;  // of its own: a build adds files, and each build reads all
        Pixels pixels(folder);
        const auto builder = pixels.builder();
        BuildOutcome outcome = BuildOutcome::kUnread;
        {
            const FailingAllocation failing(n, true);
            const Status status = builder->build(bytes_of(path), &outcome);
            CHECK(status.is_ok() || status.code == StatusCode::kOutOfMemory);
            has_failed = FailingAllocation::has_failed();
        }
        const BuildOutcome again = built(*builder, path);
        CHECK(again == BuildOutcome::kKept || again == BuildOutcome::kNotKept);
        pixels.publish();
        const BuildOutcome last = built(*pixels.builder(), path);
        CHECK(last == BuildOutcome::kKept || last == BuildOutcome::kKnown);
        pixels.publish();
        CHECK(compared(*pixels.builder(), path) == BuildOutcome::kKnown);
    }
}

}  // namespace fastload

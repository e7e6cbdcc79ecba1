#include "engine/sample/pixel_builder.h"

#include <memory>
#include <string>
#include <utility>

#include "check.h"
#include "engine/cache/file_record_cache.h"
#include "failing_allocation.h"
#include "image/steps/resize.h"
#include "kernels/dispatch.h"
#include "plan_steps.h"
#include "running_store.h"
#include "small_picture.h"
#include "temporary_folder.h"

namespace fastload {
namespace {

using testing::bytes_of;
using testing::FailingAllocation;
using testing::RecordFolder;
using testing::RunningStore;
using testing::TemporaryFolder;

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

// A store of pixels with its thread, and what a builder for it is made with.
class Pixels {
  public:
    explicit Pixels(const RecordFolder& folder, std::int64_t clock_ahead_ns = kHour)
        : running_(folder, {64 * testing::kMiB, 0, true, RecordKind::kPixels}) {
        const std::shared_ptr<RecordStore> store(running_.get(), [](RecordStore*) {});
        const auto files = std::make_shared<FileRecordCache>(store, Validation::kTrust, 0, clock_ahead_ns);
        options_.cache = std::make_shared<DecodeCache>(store->key(), store, 10, files);
    }
    std::unique_ptr<PixelBuilder> builder(std::int32_t width = 40) const { return builder_of(first_steps(width)); }
    std::unique_ptr<PixelBuilder> builder_of(std::shared_ptr<const FirstSteps> steps) const {
        return std::make_unique<PixelBuilder>(*select_kernel_table(), options_, std::move(steps));
    }
    RunningStore& store() { return running_; }

  private:
    RunningStore running_;
    NativeWorkerOptions options_;
};

BuildOutcome built(PixelBuilder& builder, const std::string& path) {
    BuildOutcome outcome = BuildOutcome::kUnread;
    CHECK(builder.build(bytes_of(path), &outcome).is_ok());
    return outcome;
}

BuildOutcome compared(PixelBuilder& builder, const std::string& path) {
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
    const auto builder = pixels.builder();
    CHECK(compared(*builder, path) == BuildOutcome::kAbsent);
    CHECK(built(*builder, path) == BuildOutcome::kKept);
    CHECK(built(*builder, path) == BuildOutcome::kKnown);
    CHECK(compared(*builder, path) == BuildOutcome::kKnown);
    // Other steps have other pixels, and the store has no indexes.
    const auto other = pixels.builder(41);
    CHECK(compared(*other, path) == BuildOutcome::kAbsent);
    CHECK(built(*other, path) == BuildOutcome::kKept);
    pixels.store().flush();
    CHECK_EQUAL(pixels.store()->counters().records, 2U);
}

TEST_CASE(pixels_that_say_something_else_than_their_file_are_different) {
    const RecordFolder folder;
    TemporaryFolder images;
    const std::string path = images.write("a.jpg", file());
    Pixels pixels(folder);
    // Of other steps under the same hash.
    auto wrong = std::make_shared<FirstSteps>(*first_steps(40));
    wrong->plan = first_steps(41)->plan;
    const auto builder = pixels.builder();
    CHECK(built(*builder, path) == BuildOutcome::kKept);
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
    const RecordFolder folder;
    TemporaryFolder images;
    Pixels pixels(folder);
    bool has_failed = true;
    for (std::int64_t n = 1; has_failed; ++n) {
        const std::string path = images.write(std::to_string(n) + ".jpg", file());
        const auto builder = pixels.builder();
        BuildOutcome outcome = BuildOutcome::kUnread;
        {
            const FailingAllocation failing(n, true);
            const Status status = builder->build(bytes_of(path), &outcome);
            CHECK(status.is_ok() || status.code == StatusCode::kOutOfMemory);
            has_failed = FailingAllocation::has_failed();
        }
        // The store's thread may have had no memory, too: then the next epoch keeps again.
        pixels.store().flush();
        pixels.store()->begin_epoch();
        const BuildOutcome again = built(*builder, path);
        CHECK(again == BuildOutcome::kKept || again == BuildOutcome::kKnown);
        CHECK(compared(*builder, path) == BuildOutcome::kKnown);
    }
}

}  // namespace fastload

#include "engine/sample/sample_decoder.h"

#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "engine/batch/batch_rows.h"
#include "failing_allocation.h"
#include "image/steps/random_resized_crop.h"
#include "kernels/dispatch.h"
#include "plan_steps.h"
#include "small_picture.h"
#include "temporary_folder.h"

namespace fastload {
namespace {

using namespace testing;

// A file, and pixels as another decoder returns them for one of its size.
class Source {
  public:
    Source() : path_(folder_.write("image", {reinterpret_cast<const char*>(kSmallPicture), sizeof kSmallPicture})) {
        for (std::size_t i = 0; i < pixels_.size(); ++i) pixels_[i] = static_cast<std::uint8_t>(i * i >> 3);
    }
    Status run(bool is_native, SampleDecoder& decoder, const SampleDecoder::Plan& plan, DrawSource* draws,
               DecodedSample* result) const {
        if (is_native) return decoder.run(bytes_of(path_), plan, draws, result);
        return decoder.run_with_pixels({pixels_.data(), 3 * 272, 272, 80}, plan, draws, result);
    }

  private:
    TemporaryFolder folder_;
    const std::string path_;
    std::vector<std::uint8_t> pixels_ = std::vector<std::uint8_t>(std::size_t{3} * 272 * 80);
};

SampleDecoder make_decoder() { return {*select_kernel_table(), {}}; }

SampleDecoder::Plan random_crop() { return make_plan({placed(sized<RandomResizedCrop>(32, 32))}); }

std::vector<std::uint8_t> bytes_in(const DecodedSample& result) {
    return {result.bytes.get(), result.bytes.get() + result.size_bytes};
}

}  // namespace

TEST_CASE(decoder_writes_to_the_callers_row_if_the_sample_fills_it) {
    const Source source;
    SampleDecoder decoder = make_decoder();
    const auto plan = make_plan({});
    CounterDraws draws(1, 2, 3);
    DecodedSample own;
    CHECK(source.run(true, decoder, plan, &draws, &own).is_ok());
    const std::size_t size = own.size_bytes;
    for (const std::size_t place_size : {size - 1, size, size + 1}) {
        std::vector<std::uint8_t> place(place_size, 77);
        DecodedSample result;
        result.place = {place.data(), place.size()};
        CHECK(source.run(true, decoder, plan, &draws, &result).is_ok());
        CHECK(result.is_placed() == (place_size == size));
        CHECK((result.is_placed() ? place : bytes_in(result)) == bytes_in(own));
        CHECK(result.is_placed() || place == std::vector<std::uint8_t>(place_size, 77));
    }
}

TEST_CASE(rows_are_held_by_their_tokens_and_hold_their_memory) {
    constexpr std::size_t kBytes = 3 << 12;
    BufferPool pool(2);
    auto rows = std::make_unique<BatchRows>(pool.allocate(kBytes), 3);
    CHECK_EQUAL(rows->row(0).size(), kBytes / 3);
    CHECK(rows->row(2).data() == rows->row(0).data() + kBytes / 3 * 2);
    auto first = rows->take(0);
    auto last = rows->take(2);
    CHECK(rows->is_held(0) && !rows->is_held(1) && rows->is_held(2));
    CHECK_EQUAL(rows->num_held(), 2U);
    first.reset();
    CHECK(!rows->is_held(0));
    CHECK_EQUAL(rows->num_held(), 1U);
    std::uint8_t* const memory = rows->row(0).data();
    rows.reset();
    const auto other = pool.allocate(kBytes);
    CHECK(other->data != memory);
    last.reset();
    CHECK(pool.allocate(kBytes)->data == memory);
}

TEST_CASE(decoder_takes_one_piece_of_memory_for_each_sample_once_it_is_warm) {
    const Source source;
    const auto plan = random_crop();
    SampleDecoder decoder = make_decoder();
    CHECK_EQUAL(decoder.take_timings().bytes_read, 0U);
    const auto run_both = [&](std::uint64_t sample, int* num_ok) {
        for (const bool is_native : {true, false}) {
            CounterDraws draws(0, 0, sample);
            DecodedSample result;
            *num_ok += source.run(is_native, decoder, plan, &draws, &result).is_ok() ? 1 : 0;
        }
    };
    int num_ok = 0;
    for (std::uint64_t sample = 0; sample < 100; ++sample) run_both(sample, &num_ok);
    CHECK_EQUAL(num_ok, 200);
    const std::size_t held = decoder.scratch_bytes();
    for (std::uint64_t sample = 0; sample < 100; ++sample) {
        const FailingAllocation third(3, true);
        run_both(sample, &num_ok);
        CHECK(!FailingAllocation::has_failed());
    }
    CHECK_EQUAL(num_ok, 400);
    CHECK_EQUAL(decoder.scratch_bytes(), held);
    const SampleTimings timings = decoder.take_timings();
    CHECK_EQUAL(timings.bytes_read, 200 * sizeof kSmallPicture);
    CHECK(timings.read_ns > 0 && timings.header_ns > 0 && timings.decode_ns > 0 && timings.transform_ns > 0);
    CHECK_EQUAL(decoder.take_timings().bytes_read, 0U);
}

TEST_CASE(whichever_allocation_fails_a_decoder_says_so_and_goes_on) {
    const Source source;
    const auto plan = random_crop();
    for (const bool is_native : {true, false}) {
        const auto attempt = [&](SampleDecoder& decoder, DecodedSample* result) {
            CounterDraws draws(1, 2, 3);
            return source.run(is_native, decoder, plan, &draws, result);
        };
        DecodedSample expected;
        SampleDecoder undisturbed = make_decoder();
        CHECK(attempt(undisturbed, &expected).is_ok());
        int num_failed = 0;
        bool has_failed = true;
        for (std::int64_t n = 1; has_failed; ++n) {
            SampleDecoder decoder = make_decoder();
            DecodedSample result;
            Status status;
            {
                const FailingAllocation scope(n, false);
                status = attempt(decoder, &result);
                has_failed = FailingAllocation::has_failed();
            }
            CHECK(status.code == (has_failed ? StatusCode::kOutOfMemory : StatusCode::kOk));
            CHECK(attempt(decoder, &result).is_ok());
            CHECK(bytes_in(result) == bytes_in(expected));
            num_failed += has_failed ? 1 : 0;
        }
        CHECK(num_failed > 3);
    }
}

TEST_CASE(decoders_in_several_threads_share_a_plan) {
    const Source source;
    const auto plan = random_crop();
    const auto make_all = [&](std::vector<DecodedSample>* results) {
        SampleDecoder decoder = make_decoder();
        TorchDraws draws(Mt19937Stream(11), {true, true});
        for (DecodedSample& result : *results) {
            if (!source.run(true, decoder, plan, &draws, &result).is_ok()) return;
        }
    };
    std::vector<std::vector<DecodedSample>> results(5);
    for (std::vector<DecodedSample>& of_thread : results) of_thread.resize(20);
    make_all(&results[0]);
    std::vector<std::thread> threads;
    for (std::size_t i = 1; i < results.size(); ++i) threads.emplace_back(make_all, &results[i]);
    for (std::thread& thread : threads) thread.join();
    for (const std::vector<DecodedSample>& of_thread : results) {
        for (std::size_t i = 0; i < of_thread.size(); ++i) {
            CHECK(of_thread[i].bytes != nullptr && bytes_in(of_thread[i]) == bytes_in(results[0][i]));
        }
    }
}

}  // namespace fastload

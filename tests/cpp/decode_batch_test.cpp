// Batches that a device decodes: equal to their samples decoded one by one, in however many runs.
#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "check.h"
#include "device/decode_batch.h"
#include "emulated_scan.h"
#include "rounds.h"
#include "scan_maker.h"
#include "small_picture.h"

namespace fastload {
namespace {

using namespace testing;

constexpr ByteSpan kFile = {kSmallPicture, sizeof kSmallPicture};
constexpr int kLaunches[] = {1, 7, 64};

ByteSpan span(const std::vector<std::uint8_t>& bytes) { return {bytes.data(), bytes.size()}; }

// The wire of a random part of the small picture, resized to `to`.
std::vector<std::uint8_t> random_wire(std::mt19937& random, const ScanMaker& maker, ImageSize to) {
    const auto below = [&](std::int32_t count) {
        return static_cast<std::int32_t>(random() % static_cast<unsigned>(count));
    };
    const std::int32_t width = 1 + below(maker.size().width);
    const std::int32_t height = 1 + below(maker.size().height);
    return maker.make(WantedSample(
        {below(maker.size().width - width + 1), below(maker.size().height - height + 1), width, height}, to));
}

std::uint64_t scratch_bytes(const std::vector<std::uint8_t>& wire) {
    return ScanScratch(*reinterpret_cast<const ScanHead*>(wire.data())).end;
}

// A batch and what its pixels are.
struct ExpectedBatch {
    EmulatedBatch batch;
    std::vector<std::uint8_t> pixels;
    std::uint64_t all_scratch = 0;
    std::uint64_t most_scratch = 0;  // of a sample

    void add_scan(const std::vector<std::uint8_t>& wire) {
        EmulatedScan alone(span(wire));
        CHECK(alone.run(5) == PieceFault::kNone);
        pixels.insert(pixels.end(), alone.pixels().begin(), alone.pixels().end());
        all_scratch += scratch_bytes(wire);
        most_scratch = std::max(most_scratch, scratch_bytes(wire));
        batch.add(SampleForm::kScan, span(wire));
    }
    void add_pixels(const std::vector<std::uint8_t>& bytes) {
        pixels.insert(pixels.end(), bytes.begin(), bytes.end());
        batch.add(SampleForm::kPixels, span(bytes));
    }
};

TEST_CASE(a_batch_of_both_forms_is_its_samples_in_any_number_of_runs) {
    std::mt19937 random(1);
    const ScanMaker maker(kFile, jpeg::IndexLevel::kDense);
    for (std::uint64_t round = 0; round < rounds(60); ++round) {
        const ImageSize to = round % 2 == 0 ? ImageSize{16, 16} : ImageSize{13, 11};  // 429 bytes: no multiple of 16
        const std::uint64_t pixel_bytes = 3U * static_cast<unsigned>(to.width) * static_cast<unsigned>(to.height);
        ExpectedBatch expected;
        const auto num_samples = static_cast<int>(1 + random() % 12);
        for (int i = 0; i < num_samples; ++i) {
            if (random() % 3 != 0) {
                expected.add_scan(random_wire(random, maker, to));
                continue;
            }
            std::vector<std::uint8_t> pixels(pixel_bytes);
            for (std::uint8_t& value : pixels) value = static_cast<std::uint8_t>(random());
            expected.add_pixels(pixels);
        }
        for (const std::uint64_t scratch :
             {expected.all_scratch, expected.all_scratch / 32 * 16, expected.most_scratch}) {
            EmulatedBatch& batch = expected.batch;
            batch.run(std::max(scratch, expected.most_scratch), pixel_bytes, kLaunches[round % 3]);
            CHECK(batch.pixels() == expected.pixels);
            CHECK(std::all_of(batch.faults().begin(), batch.faults().end(), [](auto fault) { return fault == 0; }));
            if (scratch == expected.all_scratch) CHECK_EQUAL(batch.num_runs(), 1);
        }
    }
}

TEST_CASE(samples_for_which_the_scratch_memory_is_full_begin_a_run) {
    const ScanMaker maker(kFile, jpeg::IndexLevel::kRows);
    const std::vector<std::uint8_t> wire = maker.make(WantedSample({0, 0, 40, 40}, {16, 16}));
    ExpectedBatch expected;
    for (int i = 0; i < 7; ++i) {
        expected.add_scan(wire);
        expected.add_pixels(std::vector<std::uint8_t>(3 * 16 * 16, static_cast<std::uint8_t>(i)));
    }
    for (const int in_a_run : {1, 2, 3, 7}) {
        expected.batch.run(static_cast<unsigned>(in_a_run) * scratch_bytes(wire), 3 * 16 * 16, 64);
        CHECK_EQUAL(expected.batch.num_runs(), (7 + in_a_run - 1) / in_a_run);
        CHECK(expected.batch.pixels() == expected.pixels);
    }
}

TEST_CASE(a_fault_is_that_of_its_sample_alone) {
    const ScanMaker maker(kFile, jpeg::IndexLevel::kRows);
    const std::vector<std::uint8_t> right = maker.make(WantedSample({0, 0, 40, 40}, {16, 16}));
    std::vector<std::uint8_t> wrong = right;
    const ScanLayout layout(*reinterpret_cast<const ScanHead*>(wrong.data()));
    reinterpret_cast<ScanPlace*>(wrong.data() + layout.places)->position_bits += 3;
    EmulatedBatch batch;
    batch.add(SampleForm::kScan, span(right));
    batch.add(SampleForm::kScan, span(wrong));
    batch.add(SampleForm::kScan, span(right));
    batch.run(3 * scratch_bytes(right), 3 * 16 * 16, 64);
    CHECK_EQUAL(batch.faults()[0], 0U);
    CHECK(batch.faults()[1] != 0);
    CHECK_EQUAL(batch.faults()[2], 0U);
}

TEST_CASE(a_run_has_no_more_samples_than_a_grid) {
    const std::vector<WireEntry> entries(2 * kMaxSamplesOfRun + 5, {SampleForm::kPixels, 0, 0, 0});
    DecodeBatch batch;
    batch.host_wire = reinterpret_cast<const std::uint8_t*>(entries.data());
    batch.num_samples = static_cast<std::uint32_t>(entries.size());
    std::vector<std::uint32_t> counts;
    for (std::uint32_t first = 0; first < batch.num_samples; first += counts.back()) {
        counts.push_back(run_from(batch, first).count);
    }
    CHECK((counts == std::vector<std::uint32_t>{kMaxSamplesOfRun, kMaxSamplesOfRun, 5}));
}

TEST_CASE(a_run_knows_the_most_of_its_samples) {
    const ScanMaker maker(kFile, jpeg::IndexLevel::kRows);
    const std::vector<std::uint8_t> wide = maker.make(WantedSample({0, 0, maker.size().width, 9}, {2, 2}));
    const std::vector<std::uint8_t> high = maker.make(WantedSample({0, 0, 9, maker.size().height}, {30, 3}));
    std::vector<std::uint8_t> wire(2 * sizeof(WireEntry));
    for (const auto* sample : {&wide, &high}) {
        const WireEntry entry = {SampleForm::kScan, static_cast<std::uint32_t>(wire.size() / 16),
                                 static_cast<std::uint32_t>(sample->size() / 16), 0};
        std::memcpy(wire.data() + (sample == &wide ? 0 : sizeof entry), &entry, sizeof entry);
        wire.insert(wire.end(), sample->begin(), sample->end());
    }
    place_scratch(wire.data(), 2, scratch_bytes(wide) + scratch_bytes(high));
    CHECK_EQUAL(std::uint64_t{16} * wire_entry(wire.data(), 1).scratch, scratch_bytes(wide));
    DecodeBatch batch;
    batch.host_wire = wire.data();
    batch.num_samples = 2;
    const DecodeRun run = run_from(batch, 0);
    const auto& first = *reinterpret_cast<const ScanHead*>(wide.data());
    const auto& second = *reinterpret_cast<const ScanHead*>(high.data());
    CHECK_EQUAL(run.count, 2U);
    CHECK_EQUAL(run.pieces, std::max(first.num_places, second.num_places));
    CHECK_EQUAL(run.blocks, std::max(num_scan_blocks(first), num_scan_blocks(second)));
    CHECK_EQUAL(run.pixels, static_cast<std::uint64_t>(std::max(maker.size().width * 9, 30 * maker.size().height)));
}

}  // namespace
}  // namespace fastload

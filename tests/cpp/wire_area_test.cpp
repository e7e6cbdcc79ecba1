// Batches on their way to a device: each sample has room, and those in scan form have the host's pixels.
#include "engine/sample/wire_area.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "check.h"
#include "emulated_scan.h"
#include "engine/sample/native_sample_worker.h"
#include "image/steps/crop.h"
#include "image/steps/resize.h"
#include "io/sample_index.h"
#include "kernels/dispatch.h"
#include "plan_steps.h"
#include "rounds.h"
#include "small_picture.h"
#include "table_records.h"
#include "temporary_folder.h"

namespace fastload {
namespace {

using namespace testing;

constexpr ImageSize kOutput = {30, 20};
constexpr std::size_t kSampleBytes = std::size_t{3} * kOutput.width * kOutput.height;

// A wire in memory of its own.
struct OwnWire {
    AlignedBuffer memory;
    std::unique_ptr<WireArea> area;

    OwnWire(std::size_t size_bytes, std::uint32_t num_samples, std::size_t pixel_bytes,
            std::uint64_t scratch_bytes = 1 << 20) {
        CHECK(memory.reserve(size_bytes).is_ok());
        area = std::make_unique<WireArea>(memory.data(), size_bytes, num_samples, pixel_bytes, scratch_bytes);
    }
    const WireEntry& entry(std::size_t position) const {
        return wire_entry(memory.data(), static_cast<std::uint32_t>(position));
    }
};

// The head of a sample of so many bytes.
ScanHead head_of(std::size_t bytes) {
    ScanHead head;
    head.bytes = static_cast<std::uint32_t>(bytes);
    return head;
}

// Places the samples from several threads, each in scan form if it is let in. Returns how many are.
int place_all(WireArea* area, const std::vector<std::size_t>& scan_bytes, int num_threads) {
    std::atomic<std::size_t> next{0};
    std::atomic<int> num_scans{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < num_threads; ++i) {
        threads.emplace_back([&] {
            for (std::size_t sample = next++; sample < scan_bytes.size(); sample = next++) {
                const bool is_scan =
                    scan_bytes[sample] != 0 && area->take_scan(sample, head_of(scan_bytes[sample])) != nullptr;
                num_scans += is_scan ? 1 : 0;
                if (!is_scan) CHECK(area->take_pixels(sample) != nullptr);
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    return num_scans;
}

TEST_CASE(each_sample_has_room_whatever_the_others_take) {
    std::mt19937 random(1);
    for (std::uint64_t round = 0; round < rounds(300); ++round) {
        const std::size_t pixel_bytes = 1 + random() % 2000;
        const auto num_samples = static_cast<std::uint32_t>(1 + random() % 40);
        const std::size_t spare = random() % 3 == 0 ? 0 : random() % 20'000;
        const std::size_t size_bytes = WireArea::size_for(num_samples, pixel_bytes) + spare;
        OwnWire wire(size_bytes, num_samples, pixel_bytes);
        std::vector<std::size_t> scan_bytes(num_samples);
        for (std::size_t& bytes : scan_bytes) bytes = random() % 3 == 0 ? 0 : 16 * (1 + random() % 300);
        place_all(wire.area.get(), scan_bytes, 1 + static_cast<int>(round % 3));
        // Offsets and sizes of the samples.
        std::vector<std::pair<std::uint64_t, std::uint64_t>> places;
        for (std::uint32_t i = 0; i < num_samples; ++i) {
            const WireEntry& entry = wire.entry(i);
            const std::size_t bytes = entry.form == SampleForm::kScan ? scan_bytes[i] : pixel_bytes;
            CHECK_EQUAL(entry.size, (bytes + 15) / 16);
            places.emplace_back(std::uint64_t{16} * entry.offset, bytes);
        }
        std::sort(places.begin(), places.end());
        std::uint64_t end = sizeof(WireEntry) * num_samples;
        for (const auto& [offset, bytes] : places) {
            CHECK(offset >= end && offset % WireArea::kAlignment == 0);
            end = offset + bytes;
        }
        CHECK(end <= wire.area->used_bytes() && wire.area->used_bytes() <= size_bytes);
    }
}

TEST_CASE(a_sample_is_let_in_as_long_as_all_others_have_room_as_pixels) {
    // Three lines for the pixels of each of four samples, one for the entries.
    OwnWire wire(256 * (1 + 4 * 3), 4, 700);
    WireArea& area = *wire.area;
    CHECK(area.take_scan(0, head_of(4 * 256)) == nullptr);
    CHECK(area.take_scan(0, head_of(2 * 256)) != nullptr);  // leaves a line
    CHECK(area.take_scan(1, head_of(5 * 256)) == nullptr);
    CHECK(area.take_scan(1, head_of(4 * 256)) != nullptr);
    CHECK(area.take_scan(2, head_of(3 * 256 + 1)) == nullptr);
    std::uint8_t* const pixels = area.take_pixels(2);
    CHECK(pixels != nullptr && area.take_pixels(2) == pixels);  // as after a fallback
    CHECK(area.take_scan(3, head_of(3 * 256)) != nullptr);
    CHECK(area.take_scan(0, head_of(256)) == nullptr);  // it has a place
    CHECK_EQUAL(area.used_bytes(), std::size_t{256 * 13});
}

// A worker that makes samples of the small picture, with a cache.
class PictureWorker final : public SampleChoices {
  public:
    explicit PictureWorker(Steps steps, const Bytes& picture = {std::begin(kSmallPicture), std::end(kSmallPicture)}) {
        std::mt19937_64 random(1);
        for (std::uint64_t& word : key_.words) word = random();
        path_ = folder_.write("picture.jpg", {picture.begin(), picture.end()});
        offsets_ = {0, static_cast<std::int64_t>(path_.size())};
        OutputLayout layout;
        layout.channels_last = true;
        source_.index =
            std::make_shared<ArenaIndex>(ByteSpan(reinterpret_cast<const std::uint8_t*>(path_.data()), path_.size()),
                                         Span<const std::int64_t>(offsets_.data(), 2), nullptr);
        source_.views = {{make_plan(std::move(steps), layout), kSampleBytes}};
        NativeWorkerOptions options;
        options.cache = cache_ = std::make_shared<DecodeCache>(key_, borrowed(&table_), 10);
        worker_ = std::make_unique<NativeSampleWorker>(*select_kernel_table(), options);
    }

    Status resolve(const SampleTask& task, ImageSize source_size) noexcept override {
        CounterDraws draws(1, task.position, 3);
        return task.source->resolve(&draws, source_size, task.report);
    }

    // Makes sample `position`, on a wire if there is one, else at `pixels`.
    Status make(std::size_t position, WireArea* wire, std::uint8_t* pixels) {
        SampleReport report;
        report.reset(source_);
        SampleFile file(nullptr);
        SampleTimings timings;
        SampleTask task;
        task.source = &source_;
        task.position = position;
        task.images = &pixels;
        task.file = &file;
        task.report = &report;
        task.choices = this;
        task.wire = wire;
        return worker_->run(task, &timings);
    }

    CacheCounters counters() const { return cache_->counters(); }

  private:
    HashKey key_ = {};
    IndexTable table_{kNoBound};
    std::shared_ptr<DecodeCache> cache_;
    TemporaryFolder folder_;
    std::string path_;
    std::vector<std::int64_t> offsets_;
    SampleSource source_;
    std::unique_ptr<NativeSampleWorker> worker_;
};

Steps training_steps() { return {placed(sized<RandomResizedCrop>(kOutput.width, kOutput.height)), flip(0.5)}; }

TEST_CASE(samples_on_a_wire_are_the_hosts_in_each_epoch) {
    constexpr std::uint32_t kSamples = 12;
    PictureWorker host(training_steps());
    std::vector<std::uint8_t> expected(kSamples * kSampleBytes);
    for (std::uint32_t i = 0; i < kSamples; ++i) {
        CHECK(host.make(i, nullptr, expected.data()).is_ok());
    }
    for (const std::size_t spare : {std::size_t{0}, std::size_t{100'000}}) {
        PictureWorker worker(training_steps());
        std::vector<int> num_scans;
        for (int epoch = 0; epoch < 3; ++epoch) {
            OwnWire wire(WireArea::size_for(kSamples, kSampleBytes) + spare, kSamples, kSampleBytes);
            for (std::uint32_t i = 0; i < kSamples; ++i) {
                CHECK(worker.make(i, wire.area.get(), nullptr).is_ok());
            }
            const std::uint8_t* const begin = wire.memory.data();
            EmulatedBatch device;
            device.run({begin, begin + wire.area->used_bytes()}, kSamples, 1 << 20, kSampleBytes, 64);
            CHECK(device.pixels() == expected);
            const auto is_scan = [&](std::uint32_t i) { return wire.entry(i).form == SampleForm::kScan; };
            num_scans.push_back(0);
            for (std::uint32_t i = 0; i < kSamples; ++i) num_scans.back() += is_scan(i) ? 1 : 0;
        }
        // The small picture is smaller in pixels. With room the host walks through the rows that no index knows.
        CHECK((num_scans == std::vector<int>(3, spare == 0 ? 0 : static_cast<int>(kSamples))));
        CHECK_EQUAL(worker.counters().misses, 1U);  // the first sample's index is kept
        CHECK_EQUAL(worker.counters().hits, 3 * kSamples - 1U);
    }
}

TEST_CASE(a_fault_of_a_file_is_found_on_the_host) {
    int num_faults = 0;
    for (std::size_t at = sizeof kSmallPicture / 2; num_faults < 5; at += 7) {
        Bytes picture = {std::begin(kSmallPicture), std::end(kSmallPicture)};
        picture[at] ^= 0x24;
        PictureWorker host(training_steps(), picture);
        PictureWorker worker(training_steps(), picture);
        for (std::size_t position = 0; position < 6; ++position) {
            std::vector<std::uint8_t> expected(6 * kSampleBytes);
            const Status status = host.make(position, nullptr, expected.data());
            OwnWire wire(WireArea::size_for(6, kSampleBytes) + 100'000, 6, kSampleBytes);
            const Status on_wire = worker.make(position, wire.area.get(), nullptr);
            CHECK(on_wire.code == status.code && on_wire.detail == status.detail);
            num_faults += status.is_ok() ? 0 : 1;
            CHECK((wire.entry(position).form == SampleForm::kScan) == status.is_ok());
        }
    }
}

TEST_CASE(a_sample_for_which_the_device_has_no_scratch_memory_goes_as_pixels) {
    PictureWorker host(training_steps());
    PictureWorker worker(training_steps());
    std::vector<std::uint8_t> expected(kSampleBytes);
    CHECK(host.make(0, nullptr, expected.data()).is_ok());
    OwnWire wire(WireArea::size_for(1, kSampleBytes) + 100'000, 1, kSampleBytes, 1000);
    CHECK(worker.make(0, wire.area.get(), nullptr).is_ok());
    CHECK(wire.entry(0).form == SampleForm::kPixels);
    CHECK(std::memcmp(wire.area->take_pixels(0), expected.data(), kSampleBytes) == 0);
}

TEST_CASE(what_a_device_cannot_make_goes_as_pixels) {
    auto lanczos = sized<Resize>(kOutput.width, kOutput.height);
    lanczos.interpolation = Interpolation::kLanczos;
    PictureWorker worker({placed(lanczos)});
    std::vector<std::uint8_t> expected(kSampleBytes);
    CHECK(worker.make(0, nullptr, expected.data()).is_ok());
    for (int epoch = 0; epoch < 2; ++epoch) {
        OwnWire wire(WireArea::size_for(1, kSampleBytes), 1, kSampleBytes);
        CHECK(worker.make(0, wire.area.get(), nullptr).is_ok());
        CHECK(wire.entry(0).form == SampleForm::kPixels);
        CHECK(std::memcmp(wire.area->take_pixels(0), expected.data(), kSampleBytes) == 0);
    }
}

}  // namespace
}  // namespace fastload

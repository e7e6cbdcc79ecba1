// torch's random numbers under threads: in whatever order sizes become known, every sample gets the choices that one
// thread would have made for it.
#include "engine/queues/draw_order.h"

#include <atomic>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "check.h"
#include "engine/engine.h"
#include "failing_allocation.h"
#include "image/plan/transform_plan.h"
#include "image/steps/crop.h"
#include "plan_steps.h"
#include "scripted_lanes.h"

namespace fastload {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kBatchSize = 7;

// The fate of a sample, by its index: the same in every attempt.
enum class Fate : std::uint8_t {
    kNative,
    kFallbackAtHeader,
    kFallbackInBody,
    kFailsAtRead,
    kFailsInFallback,
    kTooSmall
};

struct Script {
    std::vector<Fate> fates;

    Fate fate(std::int64_t index) const { return fates[static_cast<std::size_t>(index) % fates.size()]; }

    ImageSize size(std::int64_t index) const {
        if (fate(index) == Fate::kTooSmall) return {70000, 1};  // the plan rejects it
        return {static_cast<std::int32_t>(20 + index * 37 % 400), static_cast<std::int32_t>(20 + index * 53 % 300)};
    }
};

class ResolvingWorker final : public testing::ScriptedWorker {
  public:
    ResolvingWorker(const Script& script, unsigned seed) : script_(script), random_(seed) {}

    Status run(const SampleTask& task, SampleTimings*) noexcept override {
        linger();
        const Fate fate = script_.fate(task.sample_index);
        if (fate == Fate::kFailsAtRead) return {StatusCode::kReadFailed, 5, 0, "scripted"};
        if (fate == Fate::kFallbackAtHeader || fate == Fate::kFailsInFallback) return Status::unsupported("scripted");
        if (const Status status = resolve(task); !status.is_ok()) return status;
        return fate == Fate::kFallbackInBody ? Status::irregular("scripted", 0) : Status::ok();
    }

    Status run_with_pixels(const SampleTask& task, const PackedImageView&, SampleTimings*) noexcept override {
        return resolve(task);
    }

  private:
    Status resolve(const SampleTask& task) noexcept {
        return task.choices->resolve(task, script_.size(task.sample_index));
    }

    void linger() noexcept {
        std::this_thread::sleep_for(std::chrono::microseconds(random_() % 4 == 0 ? random_() % 400 : 0));
    }

    const Script& script_;
    std::minstd_rand random_;
};

std::shared_ptr<const TransformPlan> random_plan() {
    return testing::make_plan({testing::placed(testing::sized<RandomResizedCrop>(8, 8)), testing::flip(0.5, 0)});
}

SampleSource random_source(std::uint64_t seed = 1) { return testing::drawing_source(random_plan(), seed); }

// The crop and whether there is a flip.
using Choices = std::array<std::int32_t, 5>;

Choices choices_of(const ResolvedTransform& transform) {
    const Region& region = transform.source_region;
    const std::size_t count = transform.operations.size();
    const bool is_flipped = count > 0 && testing::word_of(transform, count - 1) == "hflip";
    return {region.left, region.top, region.width, region.height, is_flipped ? 1 : 0};
}

// The choices of a torch worker for one batch, up to the first sample that fails, which is *failed.
std::vector<Choices> draw_as_torch(const Script& script, const TransformPlan& plan,
                                   const std::vector<std::int64_t>& indices, TorchDraws* draws,
                                   std::optional<std::size_t>* failed) {
    std::vector<Choices> all;
    for (std::size_t position = 0; position < indices.size(); ++position) {
        const Fate fate = script.fate(indices[position]);
        ResolvedTransform resolved;
        if (fate == Fate::kFailsAtRead || fate == Fate::kFailsInFallback ||
            !plan.resolve(draws, script.size(indices[position]), &resolved).is_ok()) {
            *failed = position;
            return all;
        }
        all.push_back(choices_of(resolved));
    }
    return all;
}

// Threads of the reference decoder: samples come back in no particular order, and some never.
class Decoders {
  public:
    Decoders(EngineCore& core, const Script& script, unsigned seed) : core_(core), script_(script) {
        for (unsigned i = 0; i < 2; ++i) threads_.emplace_back([=] { decode(seed + i); });
    }
    ~Decoders() {
        core_.signal_end();
        for (std::thread& thread : threads_) thread.join();
    }
    Decoders(const Decoders&) = delete;  // its threads point to it
    Decoders& operator=(const Decoders&) = delete;

  private:
    void decode(unsigned seed) {
        std::minstd_rand random(seed);
        while (std::optional<PendingSample> sample = core_.fallback().wait()) {
            const std::lock_guard<std::mutex> lock(mutex_);
            held_.push_back(std::move(*sample));
            // Whichever thread takes that other sample brings back what both hold.
            if (core_.fallback().size() > 0 && random() % 2 == 0) continue;
            for (; !held_.empty(); held_.pop_back()) bring_back(std::move(held_.back()));
        }
    }

    void bring_back(PendingSample sample) const {
        const std::int64_t index = sample.slot->sample_indices[sample.position];
        if (script_.fate(index) == Fate::kFailsInFallback) {
            sample.lane->fail(sample, Status::irregular("scripted", 0), nullptr);
            return;
        }
        static constexpr std::uint8_t kPixel[3] = {};
        sample.pixels = {kPixel, 3, script_.size(index).width, script_.size(index).height};
        sample.pixels_owner = std::make_shared<int>(0);
        sample.lane->complete(std::move(sample));
    }

    EngineCore& core_;
    const Script& script_;
    std::mutex mutex_;
    std::vector<PendingSample> held_;
    std::vector<std::thread> threads_;
};

// Iterates like the Python code: all batches in flight, and after a failed one a new lane for the later ones.
class Consumer {
  public:
    Consumer(Engine& engine, SampleSource source, std::vector<std::vector<std::int64_t>> batches)
        : engine_(engine), source_(std::move(source)), batches_(std::move(batches)) {
        open(0);
    }

    std::shared_ptr<BatchSlot> next(std::size_t number) {
        std::shared_ptr<BatchSlot> slot = testing::next_batch(*lane_);
        if (slot == nullptr) throw std::runtime_error("the lane ended, or has no batch after 50 seconds");
        if (slot->first_error()) {
            source_.torch_draws = lane_->draws_after(*slot);
            lane_->cancel();
            open(number + 1);
        }
        return slot;
    }

    const DrawLane& lane() const { return *lane_; }

  private:
    void open(std::size_t first) {
        lane_ = DrawLane::open(engine_.shared_core(), source_);
        for (std::size_t number = first; number < batches_.size(); ++number) {
            auto bytes =
                std::make_shared<std::vector<std::uint8_t>>(batches_[number].size() * source_.views[0].sample_bytes);
            std::uint8_t* const images = bytes->data();
            lane_->submit({{batches_[number].data(), batches_[number].size()}, {&images, 1}, bytes});
        }
    }

    Engine& engine_;
    SampleSource source_;
    const std::vector<std::vector<std::int64_t>> batches_;
    std::shared_ptr<DrawLane> lane_;
};

std::vector<std::vector<std::int64_t>> make_batches(std::size_t count) {
    std::vector<std::vector<std::int64_t>> batches(count);
    std::int64_t index = 0;
    for (auto& batch : batches) {
        for (std::size_t i = 0; i < kBatchSize; ++i) batch.push_back(index++);
    }
    return batches;
}

using testing::packed;
using Packed = testing::PackedDraws;

void check_equals_torch(const Script& script, std::size_t num_threads, unsigned seed) {
    std::atomic<unsigned> worker_seed{seed};
    Engine engine(num_threads, [&]() { return std::make_unique<ResolvingWorker>(script, ++worker_seed); });
    const Decoders decoders(engine.core(), script, seed);
    const SampleSource source = random_source(seed);
    const auto batches = make_batches(12);
    TorchDraws expected_draws = *source.torch_draws;
    Consumer consumer(engine, source, batches);
    for (std::size_t number = 0; number < batches.size(); ++number) {
        std::optional<std::size_t> failed;
        // Whether or not threads have begun the batch meanwhile.
        const auto before = packed(expected_draws);
        CHECK(packed(*consumer.lane().draws_untaken()) == before);
        const auto expected = draw_as_torch(script, *source.views[0].plan, batches[number], &expected_draws, &failed);
        const std::shared_ptr<BatchSlot> slot = consumer.next(number);
        CHECK_EQUAL(slot->first_error() != nullptr, failed.has_value());
        if (failed && slot->first_error()) CHECK_EQUAL(slot->first_error()->position, *failed);
        for (std::size_t position = 0; position < expected.size(); ++position) {
            CHECK(choices_of(slot->reports[position].views[0]) == expected[position]);
        }
        if (failed) continue;
        CHECK(packed(*consumer.lane().draws_before(*slot)) == before);
        TorchDraws after = *consumer.lane().draws_after(*slot);
        TorchDraws wanted = expected_draws;
        CHECK_EQUAL(after.below(1U << 27), wanted.below(1U << 27));
    }
    CHECK(engine.close(milliseconds(2000)));
}

}  // namespace

TEST_CASE(draws_equal_one_threads_if_some_samples_go_to_the_reference_decoder) {
    const Script script{{Fate::kNative, Fate::kFallbackAtHeader, Fate::kNative, Fate::kFallbackInBody, Fate::kNative}};
    for (const std::size_t num_threads : {1U, 2U, 5U}) check_equals_torch(script, num_threads, 12);
}

TEST_CASE(draws_of_later_batches_begin_where_a_failed_sample_stopped) {
    std::vector<Fate> fates(31, Fate::kNative);
    fates[3] = Fate::kFailsAtRead;
    fates[9] = Fate::kFailsInFallback;
    fates[12] = Fate::kFallbackInBody;
    fates[24] = Fate::kTooSmall;
    fates[26] = Fate::kFallbackAtHeader;
    for (const std::size_t num_threads : {1U, 2U, 5U}) {
        for (unsigned seed = 20; seed < 24; ++seed) check_equals_torch({fates}, num_threads, seed);
    }
}

TEST_CASE(a_packed_generator_goes_on_where_it_was) {
    for (const int num_draws : {0, 1, 623, 624, 625, 2000}) {
        Mt19937Stream stream(5);
        for (int i = 0; i < num_draws; ++i) static_cast<void>(stream.next_uint32());
        Packed bytes{};
        stream.pack(bytes.data());
        Mt19937Stream again(6);
        CHECK(again.unpack({bytes.data(), bytes.size()}));
        for (int i = 0; i < 700; ++i) CHECK_EQUAL(again.next_uint32(), stream.next_uint32());
    }
}

TEST_CASE(bytes_that_are_no_packed_generator_are_refused_and_change_nothing) {
    Packed bytes{};
    Mt19937Stream stream(5);
    static_cast<void>(stream.next_uint32());
    stream.pack(bytes.data());
    const Packed good = bytes;
    const std::size_t left = bytes.size() - 8;
    const std::size_t next = bytes.size() - 4;
    const auto is_refused = [&] {
        Mt19937Stream other = stream;
        if (other.unpack({bytes.data(), bytes.size()})) return false;
        Packed after{};
        other.pack(after.data());
        return after == good;
    };
    CHECK(!Mt19937Stream().unpack({bytes.data(), bytes.size() - 1}));
    bytes[next + 2] = 15;  // about 10^6
    CHECK(is_refused());
    bytes = good;
    bytes[left] ^= 1;  // does not match `next`
    CHECK(is_refused());
    bytes = good;
    for (std::size_t i = 0; i < 4; ++i) bytes[left + i] = 0;
    CHECK(is_refused());
}

TEST_CASE(cancel_releases_samples_that_wait_for_their_turn) {
    Script script{{Fate::kFallbackAtHeader, Fate::kNative, Fate::kNative}};
    Engine engine(2, [&]() { return std::make_unique<ResolvingWorker>(script, 1U); });
    const SampleSource source = random_source();
    std::weak_ptr<DrawLane> watched;
    std::weak_ptr<void> memory;
    {
        const std::shared_ptr<DrawLane> lane = DrawLane::open(engine.shared_core(), source);
        watched = lane;
        auto bytes = std::make_shared<std::vector<std::uint8_t>>(3 * source.views[0].sample_bytes);
        memory = bytes;
        const std::vector<std::int64_t> indices = {0, 1, 2};
        std::uint8_t* const images = bytes->data();
        lane->submit({{indices.data(), indices.size()}, {&images, 1}, bytes});
        // No thread decodes sample 0: the others have read their sizes and wait.
        PendingSample needs_python;
        CHECK(lane->wait(milliseconds(100), &needs_python) == WaitResult::kTimedOut);
        lane->cancel();
    }
    CHECK(engine.close(milliseconds(2000)));
    CHECK(watched.expired());
    CHECK(memory.expired());
}

TEST_CASE(samples_that_wait_for_their_turn_allocate_nothing_once_warm) {
    constexpr std::size_t kSamples = 40;
    constexpr int kBatches = 50;
    Script script;
    script.fates = {Fate::kNative};
    std::atomic<unsigned> seed{1};
    Engine engine(3, [&]() { return std::make_unique<ResolvingWorker>(script, seed++); });
    const SampleSource source = random_source();
    const std::shared_ptr<DrawLane> lane = DrawLane::open(engine.shared_core(), source);
    const std::vector<std::int64_t> indices(kSamples, 3);
    auto bytes = std::make_shared<std::vector<std::uint8_t>>(kSamples * source.views[0].sample_bytes);
    std::uint8_t* const images = bytes->data();
    const auto run_batches = [&] {
        for (int k = 0; k < kBatches; ++k) {
            lane->submit({{indices.data(), indices.size()}, {&images, 1}, bytes});
            lane->recycle(testing::next_batch(*lane));
        }
    };
    run_batches();
    const std::int64_t before = testing::num_allocations();
    run_batches();
    // Some for each batch, none for each sample.
    CHECK(testing::num_allocations() - before < 5 * kBatches);
}

TEST_CASE(an_image_that_changes_its_size_meanwhile_fails) {
    class ChangingWorker final : public testing::ScriptedWorker {
      public:
        Status run(const SampleTask& task, SampleTimings*) noexcept override {
            if (const Status status = task.choices->resolve(task, {100, 100}); !status.is_ok()) return status;
            return task.choices->resolve(task, {100, 101});
        }
    };
    Engine engine(1, []() { return std::make_unique<ChangingWorker>(); });
    const SampleSource source = random_source();
    Consumer consumer(engine, source, {{0}, {1}});
    CHECK(consumer.next(0)->first_error()->status.code == StatusCode::kInvalidGeometry);
}

}  // namespace fastload

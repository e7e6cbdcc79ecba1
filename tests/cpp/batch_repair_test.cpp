// Batches with failing samples, loaded again with the samples replaced or left out: torch's random numbers are the same
// as in one thread that does so sample by sample.
#include <atomic>
#include <map>
#include <thread>

#include "check.h"
#include "engine/engine.h"
#include "engine/iteration.h"
#include "image/plan/transform_plan.h"
#include "image/steps/crop.h"
#include "image/steps/random_apply.h"
#include "plan_steps.h"
#include "scripted_lanes.h"

namespace fastload {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kBatchSize = 6;
constexpr std::size_t kNumBatches = 14;
constexpr std::int64_t kNumSamples = kBatchSize * kNumBatches;

// The fate of a sample: the same in every attempt.
enum class Fate : std::uint8_t { kGood, kFailsBeforeSize, kFailsBehindSize, kSmall };

struct Script {
    std::vector<Fate> fates;

    Fate fate(std::int64_t index) const { return fates[static_cast<std::size_t>(index) % fates.size()]; }
    // A crop of 64 pixels fits into those that are not small.
    ImageSize size(std::int64_t index) const {
        const auto extra = static_cast<std::int32_t>(index * 37 % 50);
        return fate(index) == Fate::kSmall ? ImageSize{40, 20 + extra} : ImageSize{70 + extra, 120 - extra};
    }
};

class ResolvingWorker final : public testing::ScriptedWorker {
  public:
    ResolvingWorker(const Script& script, unsigned seed) : script_(script), random_(seed) {}

    Status run(const SampleTask& task, SampleTimings*) noexcept override {
        std::this_thread::sleep_for(std::chrono::microseconds(random_() % 4 == 0 ? random_() % 300 : 0));
        const Fate fate = script_.fate(task.sample_index);
        if (fate == Fate::kFailsBeforeSize) return {StatusCode::kReadFailed, 5, 0, "scripted"};
        const Status status = task.choices->resolve(task, script_.size(task.sample_index));
        if (status.code == StatusCode::kWaitsForDraws) return status;
        if (fate == Fate::kFailsBehindSize) return {StatusCode::kFileShrank, 0, 0, "scripted"};
        return status;
    }

  private:
    const Script& script_;
    std::minstd_rand random_;
};

// A flip, and by chance a crop, into which a small image does not fit.
SampleSource random_source(double probability, std::uint64_t seed = 1) {
    RandomApply by_chance;
    by_chance.probability = probability;
    by_chance.steps = {testing::placed(testing::sized<RandomCrop>(64, 64), 2)};
    return testing::drawing_source(testing::make_plan({testing::flip(0.5, 0), testing::placed(by_chance, 1),
                                                       testing::placed(testing::sized<RandomResizedCrop>(8, 8), 3)}),
                                   seed);
}

using Words = std::vector<std::int64_t>;

Words words_of(std::int64_t index, const ResolvedTransform& transform) {
    const Region& region = transform.source_region;
    return {index,        region.left,   region.top,
            region.width, region.height, static_cast<std::int64_t>(transform.operations.size())};
}

// The samples that are tried for one position.
std::vector<std::int64_t> tries_of(std::int64_t index, bool is_skipping) {
    if (is_skipping) return {index};
    return {index, (index + 41) % kNumSamples, (index + 13) % kNumSamples, (index * 5 + 3) % kNumSamples, 0};
}

// The result of one thread for a batch. Sample 0 is good.
std::vector<Words> make_as_torch(const Script& script, const TransformPlan& plan, std::int64_t first, bool is_skipping,
                                 DrawSource* draws) {
    std::vector<Words> made;
    for (std::int64_t index = first; index < first + static_cast<std::int64_t>(kBatchSize); ++index) {
        for (const std::int64_t tried : tries_of(index, is_skipping)) {
            if (script.fate(tried) == Fate::kFailsBeforeSize || script.fate(tried) == Fate::kFailsBehindSize) continue;
            ResolvedTransform resolved;
            if (!plan.resolve(draws, script.size(tried), &resolved).is_ok()) continue;
            made.push_back(words_of(tried, resolved));
            break;
        }
    }
    return made;
}

// The positions of a batch, and the samples tried there in vain: whether each has drawn.
class Repaired {
  public:
    Repaired(std::int64_t first, bool is_skipping) {
        for (std::size_t place = 0; place < kBatchSize; ++place) {
            tries_.push_back(tries_of(first + static_cast<std::int64_t>(place), is_skipping));
        }
        failed_.resize(kBatchSize);
    }

    std::vector<std::int64_t> indices() {
        std::vector<std::int64_t> indices;
        places_.clear();
        for (std::size_t place = 0; place < kBatchSize; ++place) {
            if (failed_[place].size() == tries_[place].size()) continue;
            places_.push_back(place);
            indices.push_back(tries_[place][failed_[place].size()]);
        }
        return indices;
    }

    std::vector<LostDraws> lost_draws() {
        std::vector<LostDraws> lost;
        lost_.clear();
        for (std::size_t place = 0; place < kBatchSize; ++place) {
            for (std::size_t number = 0; number < failed_[place].size(); ++number) {
                if (!failed_[place][number]) continue;
                const auto next = std::lower_bound(places_.begin(), places_.end(), place);
                lost.push_back({static_cast<std::size_t>(next - places_.begin()), *failed_[place][number]});
                lost_.emplace_back(place, number);
            }
        }
        return lost;
    }

    void note(const BatchSlot& slot) {
        for (const SampleError& error : slot.errors) {
            std::optional<ImageSize> drawn;
            if (slot.has_drawn_and_failed(error)) drawn = slot.reports[error.position].source_size;
            failed_[places_[error.position]].push_back(drawn);
        }
        for (auto number = slot.revived.rbegin(); number != slot.revived.rend(); ++number) {
            failed_[lost_[*number].first].resize(lost_[*number].second);
        }
    }

  private:
    std::vector<std::vector<std::int64_t>> tries_;
    std::vector<std::vector<std::optional<ImageSize>>> failed_;
    std::vector<std::size_t> places_;                        // of the loaded samples
    std::vector<std::pair<std::size_t, std::size_t>> lost_;  // position and number of the lost draws
};

// Iterates like the Python code.
class Consumer {
  public:
    Consumer(Engine& engine, std::vector<SampleSource> sources, bool is_skipping)
        : is_ordered_(sources.front().torch_draws.has_value()),
          bytes_(std::make_shared<std::vector<std::uint8_t>>(kBatchSize * sources.front().views[0].sample_bytes)),
          num_lanes_(sources.size()),
          iteration_(std::make_unique<Iteration>(engine.shared_core(), std::move(sources))) {
        for (std::size_t number = 0; number < kNumBatches; ++number) {
            batches_.emplace_back(first_of(number), is_skipping);
            const std::vector<std::int64_t> indices = batches_.back().indices();
            iteration_->submit({{indices.data(), indices.size()}, {&images_, 1}, bytes_});
        }
    }

    std::vector<Words> next(std::size_t number) {
        for (;; ++num_loads) {
            PendingSample needs_python;
            const std::shared_ptr<DrawLane> lane = iteration_->current();
            while (lane->wait(milliseconds(50), &needs_python) == WaitResult::kTimedOut) continue;
            std::shared_ptr<void> memory;
            const std::shared_ptr<BatchSlot> slot = iteration_->take_ready(&memory);
            CHECK(slot != nullptr);
            if (slot->errors.empty() && slot->revived.empty()) return words_of_batch(*slot);
            num_revived += slot->revived.size();
            batches_[number].note(*slot);
            load_again(*lane, *slot, number);
        }
    }

    Iteration& iteration() { return *iteration_; }
    std::size_t num_loads = 0;
    std::size_t num_revived = 0;

  private:
    static std::int64_t first_of(std::size_t number) { return static_cast<std::int64_t>(number * kBatchSize); }

    static std::vector<Words> words_of_batch(const BatchSlot& slot) {
        std::vector<Words> words;
        for (std::size_t position = 0; position < slot.sample_indices.size(); ++position) {
            words.push_back(words_of(slot.sample_indices[position], slot.reports[position].views[0]));
        }
        return words;
    }

    void load_again(const DrawLane& lane, const BatchSlot& slot, std::size_t number) {
        const std::shared_ptr<DrawLane> again = iteration_->take_back(lane, slot);
        CHECK(again != nullptr);
        CHECK((again.get() == &lane) != is_ordered_);
        const std::vector<std::int64_t> indices = batches_[number].indices();
        const std::vector<LostDraws> lost = batches_[number].lost_draws();
        again->submit_first({{indices.data(), indices.size()}, {&images_, 1}, bytes_},
                            {lost.data(), is_ordered_ ? lost.size() : 0});
        if (!is_ordered_) return;
        for (std::size_t behind = number + num_lanes_; behind < kNumBatches; behind += num_lanes_) {
            const std::vector<std::int64_t> its_indices = batches_[behind].indices();
            again->submit({{its_indices.data(), its_indices.size()}, {&images_, 1}, bytes_});
        }
    }

    const bool is_ordered_;
    const std::shared_ptr<std::vector<std::uint8_t>> bytes_;
    std::uint8_t* images_ = bytes_->data();
    const std::size_t num_lanes_;
    std::vector<Repaired> batches_;
    std::unique_ptr<Iteration> iteration_;
};

using testing::packed;

struct Case {
    std::size_t num_threads = 2;
    std::size_t num_lanes = 2;
    bool is_skipping = false;
    double probability = 1;
    unsigned seed = 1;
};

// Returns the number of samples that were put back.
std::size_t check_equals_torch(const Script& script, const Case& c) {
    std::atomic<unsigned> worker_seed{c.seed};
    Engine engine(c.num_threads, [&]() { return std::make_unique<ResolvingWorker>(script, ++worker_seed); });
    std::vector<SampleSource> sources(c.num_lanes);
    std::vector<TorchDraws> expected_draws;
    for (std::size_t lane = 0; lane < c.num_lanes; ++lane) {
        sources[lane] = random_source(c.probability, c.seed + lane);
        expected_draws.push_back(*sources[lane].torch_draws);
    }
    const std::shared_ptr<const TransformPlan> plan = sources[0].views[0].plan;
    Consumer consumer(engine, sources, c.is_skipping);
    for (std::size_t number = 0; number < kNumBatches; ++number) {
        TorchDraws& draws = expected_draws[number % c.num_lanes];
        CHECK(packed(consumer.iteration().draws_untaken()[number % c.num_lanes]) == packed(draws));
        const auto first = static_cast<std::int64_t>(number * kBatchSize);
        CHECK(consumer.next(number) == make_as_torch(script, *plan, first, c.is_skipping, &draws));
    }
    for (std::size_t lane = 0; lane < c.num_lanes; ++lane) {
        CHECK(packed(consumer.iteration().draws_untaken()[lane]) == packed(expected_draws[lane]));
    }
    CHECK(engine.close(milliseconds(2000)));
    return consumer.num_revived;
}

Script script_with(const std::map<std::size_t, Fate>& bad, std::size_t length = 29) {
    Script script{std::vector<Fate>(length, Fate::kGood)};
    for (const auto& [index, fate] : bad) script.fates[index] = fate;
    return script;
}

const std::map<std::size_t, Fate> kSome = {
    {2, Fate::kFailsBeforeSize},  {5, Fate::kFailsBehindSize},  {6, Fate::kFailsBehindSize}, {7, Fate::kSmall},
    {12, Fate::kFailsBehindSize}, {13, Fate::kFailsBeforeSize}, {14, Fate::kSmall},          {20, Fate::kSmall},
};

}  // namespace

TEST_CASE(repaired_batches_draw_like_one_thread_that_replaces_sample_by_sample) {
    for (const std::size_t num_threads : {0U, 1U, 4U}) {
        for (unsigned seed = 1; seed < 4; ++seed) {
            check_equals_torch(script_with(kSome), {num_threads, 2, false, 1, seed});
            check_equals_torch(script_with(kSome), {num_threads, 1, true, 1, seed});
        }
    }
}

TEST_CASE(a_sample_that_does_not_fail_with_its_true_draws_is_put_back) {
    std::map<std::size_t, Fate> many = kSome;
    for (const std::size_t index : {1U, 3U, 9U, 16U, 17U, 22U}) many[index] = Fate::kSmall;
    std::size_t num_revived = 0;
    for (const bool is_skipping : {false, true}) {
        for (unsigned seed = 1; seed < 9; ++seed) {
            num_revived += check_equals_torch(script_with(many), {3, 2, is_skipping, 0.5, seed});
        }
    }
    CHECK(num_revived > 0);
}

TEST_CASE(a_batch_without_remaining_samples_has_drawn_nevertheless) {
    std::map<std::size_t, Fate> all;
    for (std::size_t index = kBatchSize; index < 2 * kBatchSize; ++index) all[index] = Fate::kSmall;
    for (const std::size_t num_threads : {0U, 2U}) {
        check_equals_torch(script_with(all, 41), {num_threads, 1, true, 1, 5});
        check_equals_torch(script_with(all, 41), {num_threads, 3, true, 0.5, 6});
    }
}

TEST_CASE(without_an_order_of_draws_later_batches_are_left_alone) {
    const Script script = script_with(kSome);
    for (const std::size_t num_threads : {0U, 1U, 4U}) {
        std::atomic<unsigned> worker_seed{1};
        Engine engine(num_threads, [&]() { return std::make_unique<ResolvingWorker>(script, ++worker_seed); });
        SampleSource source = random_source(1);
        source.torch_draws.reset();
        source.seed = 3;
        Consumer consumer(engine, {source}, false);
        std::size_t num_samples = 0;
        for (std::size_t number = 0; number < kNumBatches; ++number) {
            for (const Words& words : consumer.next(number)) {
                CounterDraws draws(3, 0, static_cast<std::uint64_t>(words[0]));
                ResolvedTransform expected;
                CHECK(source.views[0].plan->resolve(&draws, script.size(words[0]), &expected).is_ok());
                CHECK(words == words_of(words[0], expected));
                ++num_samples;
            }
        }
        CHECK_EQUAL(num_samples, kNumBatches * kBatchSize);
        CHECK(consumer.iteration().draws_untaken().empty());
        // A sample counts once for each load of its own batch, and never for a load of another.
        const EngineCounters counters = engine.core().stats().snapshot();
        CHECK_EQUAL(counters.samples_native + counters.samples_failed, (kNumBatches + consumer.num_loads) * kBatchSize);
        CHECK(engine.close(milliseconds(2000)));
    }
}

TEST_CASE(errors_are_listed_by_position_for_any_order_of_events) {
    std::map<std::size_t, Fate> bad = {{0, Fate::kFailsBehindSize}, {3, Fate::kFailsBeforeSize}, {5, Fate::kSmall}};
    const Script script = script_with(bad, kBatchSize);
    std::atomic<unsigned> worker_seed{1};
    Engine engine(4, [&]() { return std::make_unique<ResolvingWorker>(script, ++worker_seed); });
    const SampleSource source = random_source(1);
    const std::shared_ptr<DrawLane> lane = DrawLane::open(engine.shared_core(), source);
    std::vector<std::uint8_t> bytes(kBatchSize * source.views[0].sample_bytes);
    std::uint8_t* const images = bytes.data();
    const std::array<std::int64_t, kBatchSize> indices = {0, 1, 2, 3, 4, 5};
    for (int attempt = 0; attempt < 20; ++attempt) {
        lane->submit({{indices.data(), indices.size()}, {&images, 1}, nullptr});
        std::shared_ptr<BatchSlot> slot = testing::next_batch(*lane);
        std::vector<std::size_t> positions;
        for (const SampleError& error : slot->errors) positions.push_back(error.position);
        CHECK(positions == std::vector<std::size_t>({0, 3, 5}));
        CHECK(!slot->has_drawn_and_failed(slot->errors[0]));  // it had drawn, and failed after that
        CHECK(!slot->has_drawn_and_failed(slot->errors[1]));
        CHECK(slot->has_drawn_and_failed(slot->errors[2]));
        lane->recycle(std::move(slot));
    }
    CHECK(engine.close(milliseconds(2000)));
}

TEST_CASE(a_batch_of_a_lane_that_was_cancelled_does_not_come_again) {
    const Script script = script_with(kSome);
    Engine engine(0, [&]() { return std::make_unique<ResolvingWorker>(script, 1U); });
    for (const bool is_ordered : {false, true}) {
        SampleSource source = random_source(1);
        if (!is_ordered) source.torch_draws.reset();
        const auto iteration = std::make_unique<Iteration>(engine.shared_core(), std::vector<SampleSource>{source});
        std::vector<std::uint8_t> bytes(source.views[0].sample_bytes);
        std::uint8_t* const images = bytes.data();
        const std::int64_t index = 2;
        iteration->submit({{&index, 1}, {&images, 1}, nullptr});
        PendingSample needs_python;
        const std::shared_ptr<DrawLane> lane = iteration->current();
        CHECK(lane->wait(milliseconds(1000), &needs_python) == WaitResult::kReady);
        std::shared_ptr<void> memory;
        const std::shared_ptr<BatchSlot> slot = iteration->take_ready(&memory);
        iteration->cancel();
        CHECK(iteration->take_back(*lane, *slot) == nullptr);
    }
}

}  // namespace fastload

// The engine with a worker that needs no files: the test decides what it writes and when it fails.
#include "engine/engine.h"

#include <atomic>
#include <deque>
#include <stdexcept>
#include <thread>

#include "check.h"
#include "engine/batch/buffer_pool.h"
#include "engine/deferred_releases.h"
#include "failing_allocation.h"
#include "scripted_lanes.h"

namespace fastload {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kSampleBytes = 16;

// Controls the workers of one engine, which share it.
struct Script {
    std::atomic<int> num_run{0};
    std::atomic<bool> is_gate_closed{false};  // workers wait here
    std::atomic<int> num_at_gate{0};
    milliseconds read_time{0};
    bool are_records_read = false;  // instead of files
    std::atomic<int> num_read{0};
    std::atomic<int> num_reading{0};
    std::atomic<int> most_reading{0};
    std::int64_t fallback_every = 0;  // sample indices divisible by it go to the reference decoder
    std::int64_t fail_from = INT64_MAX;
    std::size_t fail_making_worker = SIZE_MAX;
    std::atomic<std::size_t> num_made{0};
    std::atomic<int> num_alive{0};

    // Threads are detached: one may still be releasing its worker when the engine is gone.
    ~Script() {
        for (int attempt = 0; attempt < 5000 && num_alive > 0; ++attempt) std::this_thread::sleep_for(milliseconds(1));
    }
};

class ScriptedWorker final : public SampleWorker {
  public:
    explicit ScriptedWorker(Script& script) : script_(script) { ++script_.num_alive; }
    ~ScriptedWorker() override { --script_.num_alive; }

    void read_ahead(const SampleTask& task, SampleTimings* timings) noexcept override {
        const int now = ++script_.num_reading;
        int most = script_.most_reading;
        while (now > most && !script_.most_reading.compare_exchange_weak(most, now)) continue;
        std::this_thread::sleep_for(script_.read_time);
        std::uint64_t& sum_ns = script_.are_records_read ? timings->record_ns : timings->read_ns;
        sum_ns += static_cast<std::uint64_t>(std::chrono::nanoseconds(script_.read_time).count());
        ++script_.num_read;
        task.file->read({}, 0);  // there is no such file, but it counts as read
        --script_.num_reading;
    }

    Status run(const SampleTask& task, SampleTimings* timings) noexcept override {
        if (!task.file->is_read()) read_ahead(task, timings);
        ++script_.num_at_gate;
        while (script_.is_gate_closed) std::this_thread::sleep_for(milliseconds(1));
        ++script_.num_run;
        timings->decode_ns += 1;
        if (script_.fallback_every != 0 && task.sample_index % script_.fallback_every == 0) {
            return Status::irregular("scripted", 7);
        }
        if (task.sample_index >= script_.fail_from) return {StatusCode::kReadFailed, 5, 0, "scripted"};
        write(task, static_cast<std::uint8_t>(task.sample_index));
        return Status::ok();
    }

    Status run_with_pixels(const SampleTask& task, const PackedImageView& rgb, SampleTimings*) noexcept override {
        write(task, rgb.pixels[0]);
        return Status::ok();
    }

    std::size_t scratch_bytes() const noexcept override { return 100; }
    void release_large_scratch() noexcept override {}

  private:
    static void write(const SampleTask& task, std::uint8_t value) noexcept {
        std::memset(task.destination(0), value, kSampleBytes);
    }

    Script& script_;
};

SampleWorkerFactory factory_of(Script& script) {
    return [&script]() -> std::unique_ptr<SampleWorker> {
        if (script.num_made++ == script.fail_making_worker) throw std::bad_alloc();
        return std::make_unique<ScriptedWorker>(script);
    };
}

SampleSource scripted_source() {
    SampleSource source;
    source.views = {{nullptr, kSampleBytes}};
    return source;
}

// Memory of one batch, as a consumer would own it.
using BatchBytes = std::shared_ptr<std::vector<std::uint8_t>>;

using Indices = std::vector<std::int64_t>;

BatchBytes submit(DrawLane& lane, const Indices& indices) {
    auto bytes = std::make_shared<std::vector<std::uint8_t>>(indices.size() * kSampleBytes);
    std::uint8_t* const images = bytes->data();
    lane.submit({{indices.data(), indices.size()}, {&images, 1}, bytes});
    return bytes;
}

bool is_filled_with(const std::vector<std::uint8_t>& bytes, const std::vector<std::int64_t>& indices) {
    for (std::size_t position = 0; position < indices.size(); ++position) {
        for (std::size_t i = 0; i < kSampleBytes; ++i) {
            if (bytes[position * kSampleBytes + i] != static_cast<std::uint8_t>(indices[position])) return false;
        }
    }
    return true;
}

// An engine with one lane, closed at the end.
struct Loader {
    Engine engine;
    const std::shared_ptr<DrawLane> lane = DrawLane::open(engine.shared_core(), scripted_source());

    Loader(std::size_t num_threads, Script& script) : engine(num_threads, factory_of(script)) {}
    ~Loader() { CHECK(engine.close(milliseconds(5000))); }
    BatchBytes submit(const Indices& indices) { return fastload::submit(*lane, indices); }
    std::shared_ptr<BatchSlot> next() { return testing::next_batch(*lane); }
    WaitResult wait(PendingSample* sample) { return lane->wait(milliseconds(5000), sample); }
    EngineCounters counters() const { return engine.core().stats().snapshot(); }
};

// A sample as the reference decoder returns it: an image of one pixel, which lives longer than the call.
PendingSample with_pixel(PendingSample sample, const std::uint8_t* pixel) {
    sample.pixels = {pixel, 3, 1, 1};
    return sample;
}

void wait_until(const std::atomic<int>& count, int at_least) {
    for (int attempt = 0; attempt < 5000 && count < at_least; ++attempt) std::this_thread::sleep_for(milliseconds(1));
    CHECK(count >= at_least);
}

}  // namespace

TEST_CASE(engine_reads_more_files_or_records_at_a_time_than_it_has_threads_where_reads_take_long) {
    for (const bool are_records_read : {false, true}) {
        Script script;
        script.read_time = milliseconds(5);
        script.are_records_read = are_records_read;
        Loader loader(2, script);
        std::vector<Indices> batches;
        std::vector<BatchBytes> bytes;
        for (std::int64_t first = 0; first < 200; first += 10) {
            batches.emplace_back();
            for (std::int64_t i = first; i < first + 10; ++i) batches.back().push_back(i);
            bytes.push_back(loader.submit(batches.back()));
        }
        for (std::size_t k = 0; k < batches.size(); ++k) {
            CHECK(loader.next() != nullptr);
            CHECK(is_filled_with(*bytes[k], batches[k]));
        }
        CHECK_EQUAL(script.num_read.load(), 200);
        CHECK(script.most_reading >= 4);
    }
}

TEST_CASE(engine_has_no_readers_where_reads_are_quick) {
    Script script;
    Loader loader(2, script);
    const BatchBytes bytes = loader.submit(Indices(100, 1));
    CHECK(loader.next() != nullptr);
    CHECK_EQUAL(script.num_read.load(), 100);
    CHECK(script.num_made <= 2);
}

TEST_CASE(engine_that_is_closed_while_readers_read_ends_all_its_threads) {
    Script script;
    script.read_time = milliseconds(5);
    Loader loader(2, script);
    const BatchBytes bytes = loader.submit(Indices(1000, 1));
    wait_until(script.num_read, 50);
    CHECK(loader.engine.close(milliseconds(2000)));
    CHECK(script.num_read < 1000);
}

TEST_CASE(engine_delivers_filled_batches_in_order_for_any_number_of_threads) {
    for (const std::size_t num_threads : {0U, 1U, 2U, 8U}) {
        Script script;
        Loader loader(num_threads, script);
        std::vector<Indices> batches;
        std::vector<BatchBytes> memory;
        for (std::int64_t batch = 0; batch < 20; ++batch) {
            batches.push_back({3 * batch, 3 * batch + 1, 3 * batch + 2});
            memory.push_back(loader.submit(batches.back()));
        }
        for (std::size_t batch = 0; batch < batches.size(); ++batch) {
            const std::shared_ptr<BatchSlot> slot = loader.next();
            CHECK(slot != nullptr && slot->sample_indices == batches[batch]);
            CHECK(is_filled_with(*memory[batch], batches[batch]));
            loader.lane->recycle(slot);
        }
        PendingSample unused;
        CHECK(loader.wait(&unused) == WaitResult::kNothingInFlight);
        loader.lane->cancel();  // loses nothing
        CHECK(loader.wait(&unused) == WaitResult::kNothingInFlight);
        const EngineCounters counters = loader.counters();
        CHECK_EQUAL(counters.samples_native, 60U);
        CHECK_EQUAL(counters.batches_delivered, 20U);
    }
}

TEST_CASE(engine_reports_the_first_error_by_position_and_goes_on) {
    Script script;
    script.fail_from = 100;
    Loader loader(4, script);
    loader.submit({1, 105, 2, 103, 101});
    const BatchBytes good = loader.submit({4, 5});
    const std::shared_ptr<BatchSlot> failed = loader.next();
    CHECK(failed->first_error() != nullptr);
    CHECK_EQUAL(failed->first_error()->position, 1U);
    CHECK_EQUAL(failed->first_error()->sample_index, 105);
    CHECK_EQUAL(failed->first_error()->status.system_errno, 5);
    const std::shared_ptr<BatchSlot> following = loader.next();
    CHECK(following->first_error() == nullptr);
    CHECK(is_filled_with(*good, {4, 5}));
}

TEST_CASE(engine_passes_samples_to_the_reference_decoder_and_takes_its_pixels) {
    Script script;
    script.fallback_every = 2;
    Loader loader(3, script);
    std::thread decoder([&loader] {
        while (std::optional<PendingSample> sample = loader.engine.core().fallback().wait()) {
            const std::int64_t index = sample->slot->sample_indices[sample->position];
            if (index == 6) {
                sample->lane->fail(*sample, Status::irregular("refused", 0), nullptr);
                continue;
            }
            const auto pixel = static_cast<std::uint8_t>(index);
            sample->lane->complete(with_pixel(*sample, &pixel));
        }
    });
    const BatchBytes first = loader.submit({1, 2, 3, 4});
    loader.submit({5, 6});
    CHECK(loader.next()->first_error() == nullptr);
    CHECK(is_filled_with(*first, {1, 2, 3, 4}));
    CHECK_EQUAL(loader.next()->first_error()->sample_index, 6);
    const EngineCounters counters = loader.counters();
    CHECK_EQUAL(counters.samples_native, 3U);
    CHECK_EQUAL(counters.samples_fallback, 2U);
    CHECK_EQUAL(counters.samples_failed, 1U);
    CHECK_EQUAL(counters.fallback_reasons.at("scripted"), 3U);
    CHECK(loader.engine.close(milliseconds(5000)));
    decoder.join();
}

TEST_CASE(cancel_returns_at_once_and_memory_lives_until_the_thread_has_left) {
    Script script;
    script.is_gate_closed = true;
    Engine engine(1, factory_of(script));
    std::shared_ptr<DrawLane> lane = DrawLane::open(engine.shared_core(), scripted_source());
    std::weak_ptr<std::vector<std::uint8_t>> in_work = submit(*lane, {1, 2});
    std::weak_ptr<std::vector<std::uint8_t>> waiting = submit(*lane, {3, 4});
    wait_until(script.num_at_gate, 1);
    lane->cancel();
    PendingSample unused;
    CHECK(lane->wait(milliseconds(1000), &unused) == WaitResult::kClosed);
    CHECK(waiting.expired());
    CHECK(!in_work.expired());
    CHECK(!engine.close(milliseconds(10)));  // the thread is still at the gate
    script.is_gate_closed = false;
    CHECK(engine.close(milliseconds(5000)));
    lane.reset();
    CHECK(in_work.expired());
    CHECK_EQUAL(script.num_run.load(), 1);
}

TEST_CASE(lanes_of_one_engine_are_independent) {
    Script script;
    Engine engine(2, factory_of(script));
    const std::shared_ptr<DrawLane> first = DrawLane::open(engine.shared_core(), scripted_source());
    const std::shared_ptr<DrawLane> second = DrawLane::open(engine.shared_core(), scripted_source());
    const BatchBytes kept = submit(*second, {7, 8});
    submit(*first, {1, 2});
    first->cancel();
    CHECK(testing::next_batch(*second) != nullptr);
    CHECK(is_filled_with(*kept, {7, 8}));
    CHECK(engine.close(milliseconds(5000)));
}

TEST_CASE(a_lane_opened_after_close_refuses_its_batches) {
    Script script;
    Engine engine(1, factory_of(script));
    CHECK(engine.close(milliseconds(5000)));
    const std::shared_ptr<DrawLane> lane = DrawLane::open(engine.shared_core(), scripted_source());
    PendingSample unused;
    CHECK(lane->wait(milliseconds(5000), &unused) == WaitResult::kNothingInFlight);
    lane->submit({{}, {}, nullptr});
    CHECK(lane->wait(milliseconds(5000), &unused) == WaitResult::kClosed);
    CHECK(!engine.core().fallback().wait().has_value());
}

TEST_CASE(a_thread_that_throws_becomes_a_fault_of_every_wait_and_close_returns) {
    Script script;
    script.fail_making_worker = 0;
    Loader loader(1, script);
    loader.submit({1});
    PendingSample unused;
    CHECK(loader.wait(&unused) == WaitResult::kFault);
    CHECK(loader.lane->fault().code == StatusCode::kOutOfMemory);
    const std::shared_ptr<DrawLane> later = DrawLane::open(loader.engine.shared_core(), scripted_source());
    submit(*later, {1});
    CHECK(later->wait(milliseconds(5000), &unused) == WaitResult::kFault);
}

TEST_CASE(destroying_the_engine_wakes_a_waiting_consumer_and_its_threads) {
    Script script;
    script.is_gate_closed = true;
    auto engine = std::make_unique<Engine>(2, factory_of(script));
    const std::shared_ptr<DrawLane> lane = DrawLane::open(engine->shared_core(), scripted_source());
    submit(*lane, {1});
    std::atomic<bool> is_closed{false};
    std::thread consumer([&] {
        PendingSample unused;
        WaitResult result = WaitResult::kTimedOut;
        while (result == WaitResult::kTimedOut) result = lane->wait(milliseconds(50), &unused);
        is_closed = result == WaitResult::kClosed;
    });
    wait_until(script.num_at_gate, 1);
    engine.reset();
    script.is_gate_closed = false;
    consumer.join();
    CHECK(is_closed.load());
    CHECK(lane->core().wait_for_threads_to_end(milliseconds(5000)));
}

TEST_CASE(dropping_a_thousand_lanes_leaves_nothing_behind) {
    Script script;
    Engine engine(2, factory_of(script));
    for (int i = 0; i < 1000; ++i) {
        const std::shared_ptr<DrawLane> lane = DrawLane::open(engine.shared_core(), scripted_source());
        submit(*lane, {1, 2, 3});
        submit(*lane, {4, 5, 6});
        if (i % 3 == 0) CHECK(testing::next_batch(*lane) != nullptr);
        lane->cancel();
    }
    CHECK(engine.close(milliseconds(5000)));
    CHECK(engine.core().clients().empty());
}

TEST_CASE(slots_are_reused_once_recycled) {
    Script script;
    Loader loader(1, script);
    loader.submit({1});
    std::shared_ptr<BatchSlot> slot = loader.next();
    const BatchSlot* const address = slot.get();
    loader.lane->recycle(std::move(slot));
    loader.submit({2});
    CHECK(loader.next().get() == address);
}

TEST_CASE(an_empty_batch_is_ready_at_once) {
    Script script;
    Loader loader(1, script);
    loader.submit({});
    CHECK(loader.next() != nullptr);
}

TEST_CASE(buffer_pool_reuses_a_buffer_only_after_its_last_owner_is_gone) {
    const auto pool = std::make_shared<BufferPool>(2);
    SharedBytes first = pool->allocate(100000);
    const SharedBytes view = first;
    std::uint8_t* const data = first->data();
    first.reset();
    const SharedBytes second = pool->allocate(100000);
    CHECK(second->data() != data);
    CHECK(view->data() == data);
}

TEST_CASE(buffer_pool_keeps_no_more_free_buffers_than_asked_and_outlives_its_owner) {
    auto pool = std::make_shared<BufferPool>(2);
    std::vector<SharedBytes> buffers;
    for (int i = 0; i < 5; ++i) buffers.push_back(pool->allocate(4096));
    CHECK_EQUAL(pool->bytes_held(), 5U * 4096);
    buffers.resize(1);
    CHECK_EQUAL(pool->bytes_held(), 3U * 4096);
    pool.reset();
    buffers[0]->data()[0] = 1;
    buffers.clear();
}

TEST_CASE(buffer_pool_does_not_waste_a_large_buffer_on_a_small_batch) {
    const auto pool = std::make_shared<BufferPool>(4);
    std::uint8_t* const large = pool->allocate(1 << 20)->data();
    CHECK(pool->allocate(1000)->data() != large);
    CHECK(pool->allocate(1 << 20)->data() == large);
    CHECK(pool->allocate(SIZE_MAX) == nullptr);
}

TEST_CASE(deferred_releases_come_out_once) {
    DeferredReleases tokens;
    DeferredReleases::Token first;
    DeferredReleases::Token second;
    tokens.add(&first);
    tokens.add(&second);
    CHECK(tokens.take_all() == &second);
    CHECK(second.next == &first);
    CHECK(first.next == nullptr);
    CHECK(tokens.take_all() == nullptr);
}

// Uses an engine as a loader does while allocations fail, until one of the caller's own is refused for the third time.
// Returns the number of mistakes; reporting them would need an allocation.
int use_engine(std::size_t num_threads, Script& script) {
    int num_wrong = 0;
    int num_refused = 0;
    Engine engine(num_threads, factory_of(script));
    const auto pixel_of = [](const PendingSample& sample) {
        return static_cast<std::uint8_t>(sample.slot->sample_indices[sample.position]);
    };
    const auto serve = [&](const PendingSample& sample) {
        try {
            const std::uint8_t pixel = pixel_of(sample);
            sample.lane->complete(with_pixel(sample, &pixel));
        } catch (const std::bad_alloc&) {
            sample.lane->fail(sample, {StatusCode::kOutOfMemory, 0, 0, "scripted"}, nullptr);
        }
    };
    struct Decoder {
        Engine& engine;
        std::thread thread;
        ~Decoder() {
            engine.close(milliseconds(5000));
            if (thread.joinable()) thread.join();
        }
    } decoder{engine, {}};
    decoder.thread = std::thread([&] {
        while (std::optional<PendingSample> sample = engine.core().fallback().wait()) serve(*sample);
    });
    for (int epoch = 0; epoch < 2; ++epoch) {
        const std::shared_ptr<DrawLane> lane = DrawLane::open(engine.shared_core(), scripted_source());
        std::deque<std::pair<std::vector<std::int64_t>, BatchBytes>> pending;
        const auto submit_next = [&] {
            std::vector<std::int64_t> indices = {1, 2, 3, 4, 5, 6};
            auto bytes = std::make_shared<std::vector<std::uint8_t>>(indices.size() * kSampleBytes);
            pending.emplace_back(std::move(indices), bytes);
            try {
                std::uint8_t* const images = bytes->data();
                lane->submit({{pending.back().first.data(), 6}, {&images, 1}, bytes});
            } catch (const std::bad_alloc&) {
                pending.pop_back();  // nothing was queued
            }
        };
        for (int i = 0; i < 3; ++i) submit_next();
        for (int batch = 0; batch < 4 && !pending.empty(); ++batch) {
            PendingSample needs_python;
            WaitResult result = WaitResult::kTimedOut;
            const auto end = std::chrono::steady_clock::now() + milliseconds(5000);
            while (result == WaitResult::kTimedOut || result == WaitResult::kNeedsPython) {
                if (std::chrono::steady_clock::now() > end) return num_wrong + 1;  // it never becomes ready
                try {
                    result = lane->wait(milliseconds(20), &needs_python);
                } catch (const std::bad_alloc&) {
                    if (++num_refused == 3) return num_wrong;
                    continue;
                }
                if (result == WaitResult::kNeedsPython) serve(needs_python);
                if (result == WaitResult::kNeedsPython) needs_python = {};
            }
            if (result == WaitResult::kFault) break;
            num_wrong += result != WaitResult::kReady;
            std::shared_ptr<void> memory;
            std::shared_ptr<BatchSlot> slot = lane->take_ready(&memory);
            num_wrong += slot == nullptr ||
                         (!slot->first_error() && !is_filled_with(*pending.front().second, {1, 2, 3, 4, 5, 6}));
            pending.pop_front();
            lane->recycle(std::move(slot));
            submit_next();
        }
        lane->cancel();
    }
    return num_wrong;
}

TEST_CASE(whichever_allocation_fails_no_batch_hangs_and_nothing_is_left) {
    for (const std::size_t num_threads : {0U, 2U}) {
        for (const bool for_good : {false, true}) {
            bool has_failed = true;
            for (std::int64_t n = 1; has_failed; ++n) {
                Script script;
                script.fallback_every = 2;
                int num_wrong = 0;
                {
                    const testing::FailingAllocation scope(n, for_good);
                    try {
                        num_wrong = use_engine(num_threads, script);
                    } catch (const std::bad_alloc&) {
                    } catch (const std::runtime_error&) {  // a thread that could not be started
                    }
                    has_failed = testing::FailingAllocation::has_failed();
                }
                for (int attempt = 0; attempt < 5000 && script.num_alive > 0; ++attempt) {
                    std::this_thread::sleep_for(milliseconds(1));
                }
                CHECK_EQUAL(num_wrong, 0);
                CHECK_EQUAL(script.num_alive.load(), 0);
                CHECK(n < 2000);
            }
        }
    }
}

TEST_CASE(a_cancelled_sample_is_not_a_failed_one) {
    Script script;
    script.is_gate_closed = true;
    script.fail_from = 0;
    Loader loader(1, script);
    loader.submit({1});
    wait_until(script.num_at_gate, 1);
    loader.lane->cancel();
    script.is_gate_closed = false;
    CHECK(loader.engine.close(milliseconds(5000)));
    CHECK_EQUAL(loader.counters().samples_failed, 0U);
}

TEST_CASE(engine_without_threads_hands_the_sample_to_the_caller_until_it_is_complete) {
    Script script;
    script.fallback_every = 2;
    Loader loader(0, script);
    const BatchBytes bytes = loader.submit({1, 2, 3});
    PendingSample sample;
    CHECK(loader.wait(&sample) == WaitResult::kNeedsPython);
    sample = {};  // an interrupt came before it could be decoded
    CHECK(loader.wait(&sample) == WaitResult::kNeedsPython);
    CHECK_EQUAL(sample.position, 1U);
    const std::uint8_t pixel = 2;
    loader.lane->complete(with_pixel(sample, &pixel));
    CHECK(loader.wait(&sample) == WaitResult::kReady);
    CHECK(is_filled_with(*bytes, {1, 2, 3}));
}

TEST_CASE(a_sample_the_reference_decoder_dropped_fails) {
    Script script;
    script.fallback_every = 2;
    Loader loader(1, script);
    loader.submit({1, 2});
    const std::optional<PendingSample> sample = loader.engine.core().fallback().wait();
    loader.lane->drop(*sample);
    CHECK_EQUAL(loader.next()->first_error()->position, 1U);
}

TEST_CASE(buffer_pool_counts_what_it_holds_also_after_a_failed_allocation) {
    const auto pool = std::make_shared<BufferPool>(2);
    for (std::int64_t n = 1; n < 4; ++n) {
        try {
            const testing::FailingAllocation scope(n, false);
            pool->allocate(4096);
        } catch (const std::bad_alloc&) {
        }
        CHECK(pool->bytes_held() <= 4096U);
    }
    CHECK_EQUAL(pool->bytes_held(), 4096U);
}

}  // namespace fastload

// The emulated device breaks code that forgets to wait, and only that.
#include "device/emulated_device.h"

#include <array>
#include <atomic>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

namespace fastload {
namespace {

using Block = std::array<unsigned char, 64>;

Block filled(unsigned char value) {
    Block block;
    block.fill(value);
    return block;
}

bool holds(const Block& block, unsigned char value) { return block == filled(value); }

// A device with two streams, entered by the test's thread.
struct Device {
    EmulatedDevice device;
    const StreamId copies = device.create_stream();
    const StreamId compute = device.create_stream();
    const DeviceScope scope{device};

    void copy(Block* to, const Block& from, StreamId stream) {
        CHECK(device.copy_to_device(to->data(), from.data(), from.size(), stream).is_ok());
    }
    EventId recorded(StreamId stream) {
        EventId event = 0;
        CHECK(device.create_event(&event).is_ok());
        CHECK(device.record_event(event, stream).is_ok());
        return event;
    }
    bool is_done(EventId event) {
        bool is_done = false;
        CHECK(device.query_event(event, &is_done).is_ok());
        return is_done;
    }
};

template <typename Exception, typename Body>
std::string message_of(Body body) {
    try {
        body();
    } catch (const Exception& exception) {
        return exception.what();
    }
    return "";
}

TEST_CASE(copy_poisons_at_once_and_reads_its_source_when_it_is_stepped) {
    Device d;
    Block from = filled(1);
    Block to = filled(9);
    d.copy(&to, from, d.copies);
    CHECK(holds(to, EmulatedDevice::kPoison));
    from = filled(2);
    CHECK(d.device.step(d.copies));
    CHECK(holds(to, 2));
}

TEST_CASE(copy_does_not_poison_what_earlier_work_on_its_stream_may_use) {
    Device d;
    const Block first = filled(1);
    const Block second = filled(2);
    Block buffer = filled(9);
    Block seen = filled(0);
    d.copy(&buffer, first, d.copies);
    d.device.enqueue(d.copies, [&] { seen = buffer; });
    d.copy(&buffer, second, d.copies);
    CHECK(d.device.step(d.copies));
    CHECK(holds(buffer, 1));
    CHECK(d.device.step(d.copies));
    CHECK(holds(seen, 1));
    CHECK(holds(buffer, EmulatedDevice::kPoison));
}

TEST_CASE(copy_behind_a_wait_poisons_when_the_event_is_done_and_no_later) {
    Device d;
    const Block from = filled(1);
    Block buffer = filled(9);
    d.device.enqueue(d.compute, [] {});
    const EventId used = d.recorded(d.compute);
    d.device.wait_event(d.copies, used);
    d.copy(&buffer, from, d.copies);
    CHECK(d.device.step(d.compute));
    CHECK(holds(buffer, 9));
    CHECK(d.device.step(d.compute));
    CHECK(holds(buffer, EmulatedDevice::kPoison));
    CHECK(d.device.step(d.copies));
    CHECK(holds(buffer, 1));
}

TEST_CASE(event_is_done_when_the_work_before_it_is_and_recording_again_forgets_the_time_before) {
    Device d;
    EventId event = 0;
    CHECK(d.device.create_event(&event).is_ok());
    CHECK(d.is_done(event));
    d.device.enqueue(d.copies, [] {});
    CHECK(d.device.record_event(event, d.copies).is_ok());
    CHECK(!d.is_done(event));
    CHECK(d.device.step(d.copies));
    CHECK(!d.is_done(event));
    CHECK(d.device.step(d.copies));
    CHECK(d.is_done(event));
    CHECK(d.device.record_event(event, d.compute).is_ok());
    CHECK(!d.is_done(event));
}

TEST_CASE(wait_is_for_the_record_before_it_not_for_a_later_one) {
    Device d;
    const EventId event = d.recorded(d.copies);
    d.device.wait_event(d.compute, event);
    int runs = 0;
    d.device.enqueue(d.compute, [&] { ++runs; });
    CHECK(!d.device.step(d.compute));
    CHECK(d.device.step(d.copies));
    d.device.enqueue(d.copies, [] {});
    CHECK(d.device.record_event(event, d.copies).is_ok());
    CHECK(d.device.step(d.compute));
    CHECK_EQUAL(runs, 1);
}

TEST_CASE(wait_outlives_its_event) {
    Device d;
    const EventId event = d.recorded(d.copies);
    d.device.wait_event(d.compute, event);
    d.device.destroy_event(event);
    CHECK_EQUAL(d.device.num_pending(d.compute), 1u);
    CHECK(d.device.step(d.copies));
    CHECK_EQUAL(d.device.num_pending(d.compute), 0u);
}

TEST_CASE(run_until_follows_waits_over_streams_and_leaves_the_rest_alone) {
    Device d;
    const StreamId other = d.device.create_stream();
    std::string order;
    const auto append = [&](char letter) { return [&order, letter] { order += letter; }; };
    d.device.enqueue(d.copies, append('a'));
    const EventId a = d.recorded(d.copies);
    d.device.enqueue(d.copies, append('x'));
    d.device.wait_event(other, a);
    d.device.enqueue(other, append('b'));
    const EventId b = d.recorded(other);
    d.device.wait_event(d.compute, b);
    d.device.enqueue(d.compute, append('c'));
    const EventId c = d.recorded(d.compute);
    d.device.enqueue(d.compute, append('y'));
    d.device.run_until(c);
    CHECK(order == "abc");
    CHECK_EQUAL(d.device.num_pending(d.copies), 1u);
    CHECK_EQUAL(d.device.num_pending(d.compute), 1u);
    d.device.synchronize_all();
    CHECK_EQUAL(order.size(), 5u);
}

TEST_CASE(synchronize_runs_all_of_one_stream) {
    Device d;
    int runs = 0;
    for (int i = 0; i < 3; ++i) d.device.enqueue(d.copies, [&] { ++runs; });
    d.device.enqueue(d.compute, [&] { runs += 100; });
    d.device.synchronize(d.copies);
    CHECK_EQUAL(runs, 3);
    CHECK_EQUAL(d.device.num_pending(d.compute), 1u);
}

std::string order_of(std::uint64_t seed) {
    Device d;
    std::string order;
    for (int i = 0; i < 8; ++i) {
        d.device.enqueue(d.copies, [&] { order += 'a'; });
        d.device.enqueue(d.compute, [&] { order += 'b'; });
    }
    d.device.synchronize_all(seed);
    return order;
}

TEST_CASE(seed_decides_the_order_of_streams) {
    CHECK(order_of(1) == order_of(1));
    CHECK(order_of(1) != order_of(2));
    CHECK_EQUAL(order_of(1).size(), 16u);
}

TEST_CASE(step_any_takes_only_streams_that_can_go_on) {
    Device d;
    const EventId event = d.recorded(d.copies);
    d.device.wait_event(d.compute, event);
    d.device.enqueue(d.compute, [] {});
    CHECK(d.device.step_any(1));
    CHECK(d.is_done(event));
    CHECK(d.device.step_any(1));
    CHECK(!d.device.step_any(1));
}

TEST_CASE(kernel_that_throws_is_over_and_the_step_that_ran_it_throws) {
    Device d;
    d.device.enqueue(d.copies, [] { throw std::runtime_error("in the kernel"); });
    const EventId event = d.recorded(d.copies);
    CHECK(message_of<std::runtime_error>([&] { d.device.run_until(event); }) == "in the kernel");
    CHECK(!d.is_done(event));
    d.device.run_until(event);
    CHECK(d.is_done(event));
}

TEST_CASE(operation_that_waits_for_itself_is_reported) {
    Device d;
    d.device.enqueue(d.copies, [&] { d.device.synchronize(d.copies); });
    d.device.wait_event(d.compute, d.recorded(d.copies));
    const char* const expected = "the emulated device cannot go on: an operation waits for itself to end";
    CHECK(message_of<std::logic_error>([&] { d.device.step(d.copies); }) == expected);
    d.device.enqueue(d.compute, [&] { d.device.synchronize_all(); });
    CHECK(message_of<std::logic_error>([&] { d.device.synchronize(d.compute); }) == expected);
}

TEST_CASE(operations_of_two_threads_that_wait_for_each_other_are_reported) {
    Device d;
    std::atomic<int> started{0};
    std::atomic<int> reports{0};
    const auto synchronize_other = [&](StreamId other) {
        return [&, other] {
            ++started;
            while (started < 2) std::this_thread::yield();
            if (!message_of<std::logic_error>([&] { d.device.synchronize(other); }).empty()) ++reports;
        };
    };
    d.device.enqueue(d.copies, synchronize_other(d.compute));
    d.device.enqueue(d.compute, synchronize_other(d.copies));
    std::thread thread([&] { d.device.step(d.copies); });
    d.device.step(d.compute);
    thread.join();
    CHECK_EQUAL(reports.load(), 1);
}

TEST_CASE(threads_that_step_run_every_operation_once_and_in_the_order_of_its_stream) {
    Device d;
    std::vector<int> seen[2];  // one stream's operations run one after another: no lock
    for (int i = 0; i < 200; ++i) {
        d.device.enqueue(d.copies, [&seen, i] { seen[0].push_back(i); });
        d.device.enqueue(d.compute, [&seen, i] { seen[1].push_back(i); });
        if (i % 10 == 0) d.device.wait_event(d.compute, d.recorded(d.copies));
    }
    std::vector<std::thread> threads;
    for (std::uint64_t seed = 0; seed < 4; ++seed) threads.emplace_back([&d, seed] { d.device.synchronize_all(seed); });
    for (std::thread& thread : threads) thread.join();
    for (const std::vector<int>& stream : seen) {
        CHECK_EQUAL(stream.size(), 200u);
        for (std::size_t i = 0; i < stream.size(); ++i) CHECK_EQUAL(stream[i], static_cast<int>(i));
    }
}

TEST_CASE(thread_that_plays_the_device_sleeps_until_there_is_work) {
    Device d;
    CHECK(!d.device.wait_for_work(0));
    std::atomic<bool> is_run{false};
    std::thread player([&] {
        CHECK(d.device.wait_for_work(60));
        CHECK(d.device.step_any(0));
    });
    d.device.enqueue(d.compute, [&] { is_run = true; });
    player.join();
    CHECK(is_run);
}

TEST_CASE(nth_call_fails_once_and_does_nothing) {
    Device d;
    d.device.fail_call("copy_to_device", 2, 719, false);
    const Block from = filled(1);
    Block to = filled(9);
    d.copy(&to, from, d.copies);
    const DeviceStatus status = d.device.copy_to_device(to.data(), from.data(), from.size(), d.copies);
    CHECK_EQUAL(status.error, 719);
    CHECK(std::string(status.name) == "cudaErrorLaunchFailure");
    CHECK(std::string(status.call) == "cudaMemcpyAsync");
    CHECK_EQUAL(d.device.num_pending(d.copies), 1u);
    d.copy(&to, from, d.copies);
    CHECK_EQUAL(d.device.call_counts()["copy_to_device"], 3u);
}

TEST_CASE(failed_record_leaves_the_event_as_it_was) {
    Device d;
    const EventId event = d.recorded(d.copies);
    CHECK(d.device.step(d.copies));
    d.device.fail_call("record_event", 1, 2, false);
    CHECK_EQUAL(d.device.record_event(event, d.copies).error, 2);
    CHECK(d.is_done(event));
}

TEST_CASE(sticky_error_is_the_answer_to_every_later_call) {
    Device d;
    EventId event = d.recorded(d.copies);
    d.device.fail_call("query_event", 1, 700, true);
    bool is_done = false;
    CHECK_EQUAL(d.device.query_event(event, &is_done).error, 700);
    CHECK_EQUAL(d.device.query_event(event, &is_done).error, 700);
    CHECK_EQUAL(d.device.record_event(event, d.copies).error, 700);
    CHECK_EQUAL(d.device.create_event(&event).error, 700);
    CHECK_EQUAL(DeviceScope(d.device).status().error, 700);
}

TEST_CASE(faulty_work_shows_in_calls_after_it_ran) {
    Device d;
    d.device.enqueue_fault(d.compute, 700);
    const EventId event = d.recorded(d.copies);
    CHECK(!d.is_done(event));
    CHECK(d.device.step(d.compute));
    bool is_done = false;
    const DeviceStatus status = d.device.query_event(event, &is_done);
    CHECK(std::string(status.name) == "cudaErrorIllegalAddress");
    CHECK(std::string(status.call) == "cudaEventQuery");
}

TEST_CASE(calls_outside_of_a_scope_are_errors) {
    EmulatedDevice device;
    EventId event = 0;
    CHECK_EQUAL(device.create_event(&event).error, 201);
    {
        const DeviceScope outer(device);
        const DeviceScope inner(device);
        CHECK(inner.status().is_ok());
        CHECK(device.create_event(&event).is_ok());
        CHECK_EQUAL(device.num_threads_inside(), 1u);
        std::thread other([&] { CHECK_EQUAL(device.record_event(event, 0).error, 201); });
        other.join();
    }
    CHECK_EQUAL(device.num_threads_inside(), 0u);
    device.destroy_event(event);
    CHECK_EQUAL(device.num_events(), 1u);
}

TEST_CASE(streams_and_events_that_do_not_exist_are_errors) {
    Device d;
    Block block = filled(1);
    const EventId gone = d.recorded(d.copies);
    d.device.destroy_event(gone);
    bool is_done = false;
    CHECK_EQUAL(d.device.query_event(gone, &is_done).error, 400);
    CHECK_EQUAL(d.device.record_event(gone, d.copies).error, 400);
    CHECK_EQUAL(d.device.copy_to_device(block.data(), block.data(), 0, 77).error, 400);
    CHECK(message_of<std::invalid_argument>([&] { d.device.step(77); }) == "no stream 77");
    CHECK(message_of<std::invalid_argument>([&] { d.device.wait_event(0, gone); }) == "no event 1");
    CHECK(message_of<std::invalid_argument>([&] { d.device.fail_call("leave_thread", 1, 2, false); }).find("none of") !=
          std::string::npos);
}

}  // namespace
}  // namespace fastload

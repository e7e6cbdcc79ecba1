// A fake GPU, driven by the product's CUDA backend, breaks code that forgets to wait, and no other code.
#include "fake_cuda/fake_gpu.h"

#include <stdexcept>
#include <thread>

#include "check.h"
#include "fake_cuda/cudart.h"
#include "opened_gpu.h"

namespace fastload {
namespace {

using fake_cuda::FakeGpu;
using testing::OpenedGpu;

using Block = std::array<unsigned char, 64>;

Block filled(unsigned char value) {
    Block block;
    block.fill(value);
    return block;
}

bool holds(const Block& block, unsigned char value) { return block == filled(value); }

void* pointer_of(std::uintptr_t handle) { return reinterpret_cast<void*>(handle); }

// A device with two streams, entered by the test's thread.
struct Device : OpenedGpu {
    const StreamId copies = create_stream();
    const StreamId compute = create_stream();
    const DeviceScope scope{*backend};

    void copy(Block* to, const Block& from, StreamId stream) {
        CHECK(backend->copy_to_device(to->data(), from.data(), from.size(), stream).is_ok());
    }
    EventId recorded(StreamId stream) {
        EventId event = 0;
        CHECK(backend->create_event(&event).is_ok());
        CHECK(backend->record_event(event, stream).is_ok());
        return event;
    }
    bool is_done(EventId event) {
        bool is_done = false;
        CHECK(backend->query_event(event, &is_done).is_ok());
        return is_done;
    }
    void wait_event(StreamId stream, EventId event) {
        CHECK_EQUAL(cudaStreamWaitEvent(pointer_of(stream), pointer_of(event), 0), 0);
    }
};

template <typename Body>
std::string problem_of(Body body) {
    try {
        body();
    } catch (const std::invalid_argument& error) {
        return error.what();
    }
    return "";
}

TEST_CASE(copy_poisons_at_once_and_reads_its_source_when_it_is_stepped) {
    Device d;
    Block from = filled(1);
    Block to = filled(9);
    d.copy(&to, from, d.copies);
    CHECK(holds(to, FakeGpu::kPoison));
    from = filled(2);
    CHECK(d.gpu.step(d.copies));
    CHECK(holds(to, 2));
}

TEST_CASE(copy_does_not_poison_what_earlier_work_on_its_stream_may_use) {
    Device d;
    const Block first = filled(1);
    const Block second = filled(2);
    Block buffer = filled(9);
    Block seen = filled(0);
    d.copy(&buffer, first, d.copies);
    d.gpu.enqueue(d.copies, [&] { seen = buffer; });
    d.copy(&buffer, second, d.copies);
    CHECK(d.gpu.step(d.copies));
    CHECK(holds(buffer, 1));
    CHECK(d.gpu.step(d.copies));
    CHECK(holds(seen, 1));
    CHECK(holds(buffer, FakeGpu::kPoison));
}

TEST_CASE(copy_after_a_wait_poisons_when_the_event_is_done_and_no_later) {
    Device d;
    const Block from = filled(1);
    Block buffer = filled(9);
    d.gpu.enqueue(d.compute, [] {});
    const EventId used = d.recorded(d.compute);
    d.wait_event(d.copies, used);
    d.copy(&buffer, from, d.copies);
    CHECK(d.gpu.step(d.compute));
    CHECK(holds(buffer, 9));
    CHECK(d.gpu.step(d.compute));
    CHECK(holds(buffer, FakeGpu::kPoison));
    CHECK(d.gpu.step(d.copies));
    CHECK(holds(buffer, 1));
}

TEST_CASE(event_is_done_when_the_work_before_it_is_and_recording_again_forgets_the_time_before) {
    Device d;
    EventId event = 0;
    CHECK(d.backend->create_event(&event).is_ok());
    CHECK(d.is_done(event));
    d.gpu.enqueue(d.copies, [] {});
    CHECK(d.backend->record_event(event, d.copies).is_ok());
    CHECK(!d.is_done(event));
    CHECK(d.gpu.step(d.copies));
    CHECK(!d.is_done(event));
    CHECK(d.gpu.step(d.copies));
    CHECK(d.is_done(event));
    CHECK(d.backend->record_event(event, d.compute).is_ok());
    CHECK(!d.is_done(event));
}

TEST_CASE(wait_is_for_the_record_before_it_not_for_a_later_one) {
    Device d;
    const EventId event = d.recorded(d.copies);
    d.wait_event(d.compute, event);
    int runs = 0;
    d.gpu.enqueue(d.compute, [&] { ++runs; });
    CHECK(!d.gpu.step(d.compute));
    CHECK(d.gpu.step(d.copies));
    d.gpu.enqueue(d.copies, [] {});
    CHECK(d.backend->record_event(event, d.copies).is_ok());
    CHECK(d.gpu.step(d.compute));
    CHECK_EQUAL(runs, 1);
}

TEST_CASE(wait_outlives_its_event) {
    Device d;
    const EventId event = d.recorded(d.copies);
    d.wait_event(d.compute, event);
    d.backend->destroy_event(event);
    CHECK_EQUAL(d.gpu.num_pending(d.compute), 1u);
    CHECK(d.gpu.step(d.copies));
    CHECK_EQUAL(d.gpu.num_pending(d.compute), 0u);
}

TEST_CASE(synchronize_runs_all_of_one_stream) {
    Device d;
    int runs = 0;
    for (int i = 0; i < 3; ++i) d.gpu.enqueue(d.copies, [&] { ++runs; });
    d.gpu.enqueue(d.compute, [&] { runs += 100; });
    d.gpu.synchronize(d.copies);
    CHECK_EQUAL(runs, 3);
    CHECK_EQUAL(d.gpu.num_pending(d.compute), 1u);
}

TEST_CASE(threads_that_step_run_every_operation_once_and_in_the_order_of_its_stream) {
    Device d;
    std::vector<int> seen[2];  // one stream's operations run one after another: no lock
    for (int i = 0; i < 200; ++i) {
        d.gpu.enqueue(d.copies, [&seen, i] { seen[0].push_back(i); });
        d.gpu.enqueue(d.compute, [&seen, i] { seen[1].push_back(i); });
        if (i % 10 == 0) d.wait_event(d.compute, d.recorded(d.copies));
    }
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([&d] { d.gpu.synchronize_all(); });
    for (std::thread& thread : threads) thread.join();
    for (const std::vector<int>& stream : seen) {
        CHECK_EQUAL(stream.size(), 200u);
        for (std::size_t i = 0; i < stream.size(); ++i) CHECK_EQUAL(stream[i], static_cast<int>(i));
    }
}

TEST_CASE(nth_call_fails_once_and_does_nothing) {
    Device d;
    d.gpu.fail_call("cudaMemcpyAsync", 2, 719, false);
    const Block from = filled(1);
    Block to = filled(9);
    d.copy(&to, from, d.copies);
    const DeviceStatus status = d.backend->copy_to_device(to.data(), from.data(), from.size(), d.copies);
    CHECK_EQUAL(status.error, 719);
    CHECK(std::string(status.name) == "cudaErrorLaunchFailure");
    CHECK(std::string(status.call) == "cudaMemcpyAsync");
    CHECK_EQUAL(d.gpu.num_pending(d.copies), 1u);
    d.copy(&to, from, d.copies);
    CHECK_EQUAL(d.gpu.call_count("cudaMemcpyAsync"), 3u);
}

TEST_CASE(failed_record_leaves_the_event_as_it_was) {
    Device d;
    const EventId event = d.recorded(d.copies);
    CHECK(d.gpu.step(d.copies));
    d.gpu.fail_call("cudaEventRecord", 1, 2, false);
    CHECK_EQUAL(d.backend->record_event(event, d.copies).error, 2);
    CHECK(d.is_done(event));
}

TEST_CASE(sticky_error_is_the_answer_to_every_later_call) {
    Device d;
    EventId event = d.recorded(d.copies);
    d.gpu.fail_call("cudaEventQuery", 1, 700, true);
    bool is_done = false;
    CHECK_EQUAL(d.backend->query_event(event, &is_done).error, 700);
    CHECK_EQUAL(d.backend->query_event(event, &is_done).error, 700);
    CHECK_EQUAL(d.backend->record_event(event, d.copies).error, 700);
    CHECK_EQUAL(d.backend->create_event(&event).error, 700);
    std::thread other([&] { CHECK_EQUAL(DeviceScope(*d.backend).status().error, 700); });
    other.join();
}

// The device and the capture mode of the calling thread.
std::pair<int, int> state_of_thread() {
    int device = -1;
    int mode = fake_cuda::kCaptureModeRelaxed;
    cudaGetDevice(&device);
    cudaThreadExchangeStreamCaptureMode(&mode);
    int before = mode;
    cudaThreadExchangeStreamCaptureMode(&before);
    return {device, mode};
}

TEST_CASE(calls_outside_of_a_scope_are_errors) {
    OpenedGpu d;
    const StreamId stream = d.create_stream();
    EventId event = 0;
    CHECK_EQUAL(d.backend->create_event(&event).error, fake_cuda::kStreamCaptureUnsupported);
    {
        const DeviceScope outer(*d.backend);
        const DeviceScope inner(*d.backend);
        CHECK(inner.status().is_ok());
        CHECK(d.backend->create_event(&event).is_ok());
        CHECK(state_of_thread() == std::pair(d.gpu.number(), fake_cuda::kCaptureModeRelaxed));
        std::thread other([&] {
            CHECK_EQUAL(d.backend->record_event(event, stream).error, fake_cuda::kStreamCaptureUnsupported);
            const OpenedGpu elsewhere;
            const DeviceScope scope(*elsewhere.backend);
            CHECK_EQUAL(d.backend->record_event(event, stream).error, fake_cuda::kInvalidResourceHandle);
        });
        other.join();
    }
    CHECK(state_of_thread() == std::pair(0, fake_cuda::kCaptureModeGlobal));
    d.backend->destroy_event(event);
    CHECK_EQUAL(d.gpu.num_events(), 1u);
}

TEST_CASE(streams_and_events_that_do_not_exist_are_errors) {
    Device d;
    Block block = filled(1);
    const EventId gone = d.recorded(d.copies);
    d.backend->destroy_event(gone);
    bool is_done = false;
    CHECK_EQUAL(d.backend->query_event(gone, &is_done).error, 400);
    CHECK_EQUAL(d.backend->record_event(gone, d.copies).error, 400);
    CHECK_EQUAL(d.backend->copy_to_device(block.data(), block.data(), 0, 77).error, 400);
    CHECK_EQUAL(cudaStreamWaitEvent(pointer_of(d.copies), pointer_of(gone), 0), 400);
    CHECK(problem_of([&] { d.gpu.step(77); }) == "no stream 77");
    CHECK(problem_of([&] { FakeGpu::of(77); }) == "no stream or event 77");
    CHECK(problem_of([&] { d.gpu.fail_call("leave_thread", 1, 2); }).find("none of") != std::string::npos);
}

}  // namespace
}  // namespace fastload

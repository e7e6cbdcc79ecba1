// Staging slots and the copies out of them, on a fake GPU.

#include "check.h"
#include "engine/batch/staging_ring.h"
#include "opened_gpu.h"

namespace fastload {
namespace {

constexpr std::size_t kSlotBytes = 8;
constexpr std::size_t kNumSlots = 2;

// A ring in memory that reports when it is released.
struct Rig {
    testing::OpenedGpu device;
    fake_cuda::FakeGpu& gpu = device.gpu;
    StreamId stream = device.create_stream();
    std::shared_ptr<std::vector<std::uint8_t>> memory =
        std::make_shared<std::vector<std::uint8_t>>(kSlotBytes * kNumSlots);
    std::weak_ptr<std::vector<std::uint8_t>> watched = memory;
    std::shared_ptr<StagingRing> ring =
        StagingRing::open(device.backend, memory->data(), kSlotBytes, kNumSlots, memory);

    Rig() { memory.reset(); }

    std::shared_ptr<StagingSlot> take() {
        std::unique_ptr<StagingSlot> slot;
        CHECK(ring->take(&slot).is_ok());
        return slot;
    }

    // Fills a new slot with `value` and copies it to `to`.
    void send(std::uint8_t value, std::uint8_t* to) {
        const std::shared_ptr<StagingSlot> slot = take();
        std::memset(slot->data(), value, kSlotBytes);
        const StagedPart part{0, kSlotBytes, to};
        CHECK(slot->copy({&part, 1}, stream).is_ok());
    }
};

std::shared_ptr<BatchCopy> copy_of(std::shared_ptr<StagingSlot> slot, StreamId stream) {
    return std::make_shared<BatchCopy>(std::move(slot), std::vector<StagedPart>{{0, 4, nullptr}, {4, 4, nullptr}},
                                       stream);
}

}  // namespace

TEST_CASE(staging_slot_is_given_out_again_only_when_its_copy_is_done) {
    Rig rig;
    std::uint8_t first[kSlotBytes] = {};
    std::uint8_t second[kSlotBytes] = {};
    rig.send(1, first);
    rig.send(2, second);
    CHECK(rig.take() == nullptr);
    CHECK(rig.gpu.step(rig.stream));  // the first copy; its event is not done yet
    while (rig.take() == nullptr) CHECK(rig.gpu.step(rig.stream));
    CHECK_EQUAL(first[kSlotBytes - 1], 1);
    CHECK_EQUAL(second[0], fake_cuda::FakeGpu::kPoison);
    std::memset(rig.take()->data(), 9, kSlotBytes);
    rig.gpu.synchronize_all();
    CHECK_EQUAL(second[0], 2);
}

TEST_CASE(staging_slot_that_was_not_copied_is_free_at_once) {
    Rig rig;
    const std::shared_ptr<StagingSlot> held = rig.take();
    CHECK(held != nullptr);
    for (int i = 0; i < 5; ++i) CHECK(rig.take() != nullptr);
    const std::shared_ptr<StagingSlot> other = rig.take();
    CHECK(other->data() != held->data());
    CHECK(rig.take() == nullptr);
}

TEST_CASE(staging_memory_outlives_its_ring_until_the_last_copy_is_done) {
    Rig rig;
    std::uint8_t to[kSlotBytes] = {};
    rig.send(3, to);
    rig.ring.reset();
    CHECK(!rig.watched.expired());
    rig.gpu.synchronize_all();
    CHECK_EQUAL(to[0], 3);
    CHECK(!rig.watched.expired());
    StagingRing::sweep();
    CHECK(rig.watched.expired());
    CHECK_EQUAL(rig.gpu.num_events(), 0U);
}

TEST_CASE(staging_memory_of_a_ring_without_copies_is_released_at_once) {
    Rig rig;
    const std::shared_ptr<StagingSlot> held = rig.take();
    rig.ring.reset();
    CHECK(!rig.watched.expired());
}

TEST_CASE(batch_copy_is_queued_by_the_second_of_its_two_calls) {
    for (const bool is_written_first : {true, false}) {
        Rig rig;
        std::shared_ptr<StagingSlot> slot = rig.take();
        for (std::uint8_t i = 0; i < kSlotBytes; ++i) slot->data()[i] = i;
        const std::shared_ptr<BatchCopy> copy = copy_of(std::move(slot), rig.stream);
        std::uint8_t low[4] = {};
        std::uint8_t high[4] = {};
        void* const to[] = {low, high};
        const auto step = [&](bool is_write) {
            if (is_write) {
                copy->set_written();
            } else {
                copy->set_destinations({to, 2});
            }
        };
        step(is_written_first);
        CHECK_EQUAL(rig.gpu.num_pending(rig.stream), 0U);
        step(!is_written_first);
        CHECK_EQUAL(rig.gpu.call_count("cudaMemcpyAsync"), 2U);
        CHECK(copy->status().is_ok());
        rig.gpu.synchronize_all();
        CHECK_EQUAL(low[3], 3);
        CHECK_EQUAL(high[0], 4);
    }
}

TEST_CASE(batch_copy_is_queued_once) {
    Rig rig;
    std::uint8_t low[4] = {};
    std::uint8_t high[4] = {};
    std::uint8_t elsewhere[4] = {7, 7, 7, 7};
    void* const to[] = {low, high};
    void* const others[] = {elsewhere, elsewhere};
    const std::shared_ptr<BatchCopy> copy = copy_of(rig.take(), rig.stream);
    copy->set_destinations({to, 2});
    copy->set_destinations({others, 2});
    copy->set_written();
    copy->set_written();
    CHECK_EQUAL(rig.gpu.call_count("cudaMemcpyAsync"), 2U);
    rig.gpu.synchronize_all();
    CHECK_EQUAL(elsewhere[0], 7);
}

TEST_CASE(batch_copy_reports_the_devices_error) {
    for (const char* const function : {"cudaSetDevice", "cudaThreadExchangeStreamCaptureMode",
                                       "cudaEventCreateWithFlags", "cudaMemcpyAsync", "cudaEventRecord"}) {
        Rig rig;
        rig.gpu.fail_call(function, 1, 700, false);
        std::uint8_t low[4] = {};
        std::uint8_t high[4] = {};
        void* const to[] = {low, high};
        std::shared_ptr<BatchCopy> copy = copy_of(rig.take(), rig.stream);
        copy->set_destinations({to, 2});
        copy->set_written();
        CHECK_EQUAL(copy->status().error, 700);
        copy.reset();
        rig.gpu.synchronize_all();
        // If no event could be recorded after the copy, the next search for a slot records one.
        const std::shared_ptr<StagingSlot> first = rig.take();
        rig.take();  // records the event
        rig.gpu.synchronize_all();
        const std::shared_ptr<StagingSlot> second = rig.take();
        CHECK(first != nullptr);
        CHECK(second != nullptr);
    }
}

TEST_CASE(staging_ring_tells_that_the_device_does_not_answer) {
    Rig rig;
    std::uint8_t to[kSlotBytes] = {};
    rig.send(1, to);
    rig.send(2, to);
    rig.gpu.fail_call("cudaEventQuery", 1, 719, true);
    std::unique_ptr<StagingSlot> slot;
    CHECK_EQUAL(rig.ring->take(&slot).error, 719);
    CHECK(slot == nullptr);
}

}  // namespace fastload

#include "processes/slots.h"

#include <pthread.h>

#include <atomic>
#include <thread>

#include "check.h"
#include "forked_child.h"
#include "rounds.h"

namespace fastload {
namespace {

using BufferPointer = SharedBytes;

constexpr std::size_t kSlotBytes = Arena::kMinSlotBytes;
constexpr std::size_t kNone = SIZE_MAX;
constexpr int kPatience = 64;

// An arena and the slots in it.
struct Worker {
    std::shared_ptr<Arena> arena;
    ArenaSlots slots;

    explicit Worker(std::size_t num_slots) : Worker(make_arena(num_slots)) {}
    explicit Worker(std::shared_ptr<Arena> made) : arena(std::move(made)), slots(arena) {}

    static std::shared_ptr<Arena> make_arena(std::size_t num_slots) {
        int error = 0;
        return std::make_shared<Arena>(Arena::create(num_slots, kSlotBytes, Arena::For::kForkedWorker, &error));
    }

    // Makes a batch of one buffer.
    BufferPointer make(std::size_t size = 1) {
        slots.begin_batch();
        return slots.allocate(size);
    }

    // Makes a batch that is dropped at once; returns its slot.
    std::size_t next_slot() {
        const BufferPointer buffer = make();
        return buffer == nullptr ? kNone : static_cast<std::size_t>(buffer->data() - arena->slot(0)) / kSlotBytes;
    }

    // Makes a batch of `size` bytes and sends it; returns its slot.
    std::size_t send(std::size_t size = 1) {
        if (const BufferPointer buffer = make(size)) CHECK(slots.find(buffer->data(), size).has_value());
        return slots.end_batch().value_or(kNone);
    }
};

// The worker that makes a batch when a fork has begun, and drops it before the fork has ended in the parent. These
// handlers run between the product's, because they are registered first.
Worker* worker_at_fork = nullptr;
BufferPointer buffer_at_fork;

void make_at_fork() {
    if (worker_at_fork != nullptr) buffer_at_fork = worker_at_fork->make();
}

void drop_at_fork() { buffer_at_fork.reset(); }

const int has_handlers = pthread_atfork(make_at_fork, drop_at_fork, nullptr);

}  // namespace

TEST_CASE(a_batch_goes_into_the_first_slot_that_is_free) {
    Worker worker(4);
    for (int i = 0; i < 3; ++i) CHECK_EQUAL(worker.next_slot(), 0U);  // not sent
    CHECK(!worker.slots.end_batch());
    for (const std::size_t slot : {0U, 1U, 2U}) CHECK_EQUAL(worker.send(), slot);
    for (const std::size_t wrong : {std::size_t{3}, std::size_t{4}, SIZE_MAX}) CHECK(!worker.slots.set_free(wrong));
    CHECK(worker.slots.set_free(1));
    CHECK(!worker.slots.set_free(1));
    CHECK_EQUAL(worker.send(), 1U);
    CHECK(worker.slots.set_free(2) && worker.slots.set_free(0));
    BufferPointer kept = worker.make();
    CHECK_EQUAL(worker.next_slot(), 2U);
    kept.reset();
    CHECK_EQUAL(worker.next_slot(), 0U);
}

TEST_CASE(without_a_free_slot_one_batch_at_a_time_is_copied_into_the_last_one) {
    Worker worker(2);
    ArenaSlots& slots = worker.slots;
    CHECK_EQUAL(worker.send(), 0U);
    const std::uint8_t bytes[] = {1, 2, 3};
    for (int round = 0; round < 2; ++round) {
        CHECK(worker.make() == nullptr);
        const auto place = slots.append(bytes, 3);
        CHECK(place && place->slot == 1 && place->offset == 0 && std::memcmp(worker.arena->slot(1), bytes, 3) == 0);
        const auto next = slots.append(bytes, 3);
        CHECK(next && next->slot == 1 && next->offset == 64);
        CHECK_EQUAL(slots.end_batch().value_or(kNone), 1U);
        CHECK(worker.make() == nullptr);
        CHECK(!slots.append(bytes, 3) && !slots.find(worker.arena->slot(1), 1) && !slots.end_batch());
        CHECK(slots.set_free(1));
    }
    CHECK(slots.set_free(0));
    CHECK_EQUAL(worker.next_slot(), 0U);
}

TEST_CASE(buffers_are_aligned_and_end_with_their_slot) {
    Worker worker(2);
    std::vector<BufferPointer> buffers{worker.make()};
    for (const std::size_t size : {64U, 65U, 4095U}) buffers.push_back(worker.slots.allocate(size));
    std::size_t used = 0;
    for (const BufferPointer& buffer : buffers) {
        CHECK(buffer->data() == worker.arena->slot(0) + used);
        used += (buffer->size() + 63) / 64 * 64;
    }
    for (const std::size_t wrong : {std::size_t{0}, kSlotBytes - used + 1, kSlotBytes, SIZE_MAX}) {
        CHECK(worker.slots.allocate(wrong) == nullptr);
    }
    CHECK(worker.slots.allocate(kSlotBytes - used) != nullptr);
    CHECK(worker.slots.allocate(1) == nullptr && !worker.slots.append(worker.arena->slot(0), 1));
}

TEST_CASE(only_memory_of_the_batch_is_found) {
    Worker worker(3);
    ArenaSlots& slots = worker.slots;
    CHECK(slots.allocate(1) == nullptr && !slots.find(worker.arena->slot(0), 1));
    const BufferPointer old = worker.make(1000);
    const BufferPointer buffer = worker.make(1000);
    const std::uint8_t* const data = buffer->data();
    CHECK(!slots.find(old->data(), 1000) && !slots.find(data, 1001) && !slots.find(data - 1, 2));
    CHECK(!slots.find(data, 0) && !slots.find(data + 1, SIZE_MAX) && !slots.append(data, 0));
    const auto place = slots.find(data + 10, 990);
    CHECK(place && place->slot == 1 && place->offset == 10);
    const auto copy = slots.append(old->data(), 1000);
    CHECK(copy && copy->slot == 1 && copy->offset == 1024);
    CHECK_EQUAL(slots.end_batch().value_or(kNone), 1U);
    CHECK(slots.allocate(1) == nullptr && !slots.find(data, 1));
}

TEST_CASE(memory_that_batches_do_not_need_is_given_back_and_no_other) {
    const std::size_t page = Arena::round_to_pages(1);
    Worker worker(4);
    const auto run = [&](int count, std::size_t size) {
        for (int i = 0; i < count; ++i) {
            CHECK_EQUAL(worker.send(size), 1U);
            CHECK(worker.slots.set_free(1));
        }
    };
    const BufferPointer kept = worker.make(3 * page);
    run(1, 20 * page);
    CHECK_EQUAL(worker.arena->resident_bytes(), 23 * page);
    for (int i = 0; i < 4; ++i) {  // half of it in each 64 batches
        run(1, 10 * page);
        run(kPatience - 2, page);
    }
    CHECK_EQUAL(worker.arena->resident_bytes(), 23 * page);
    run(2 * kPatience, 2 * page - 1);
    CHECK_EQUAL(worker.arena->resident_bytes(), 5 * page);
    run(1, 20 * page);
    CHECK_EQUAL(worker.arena->resident_bytes(), 23 * page);
    CHECK_EQUAL(worker.send(5 * page), 1U);
    for (int i = 0; i < 2 * kPatience; ++i) CHECK_EQUAL(worker.next_slot(), 2U);
    CHECK_EQUAL(worker.arena->resident_bytes(), 24 * page);  // an answer lies in slot 1
    CHECK(worker.slots.set_free(1));
    CHECK_EQUAL(worker.send(page), 1U);
    CHECK(worker.slots.set_free(1));
    std::memset(kept->data(), 1, kept->size());
    worker.slots.release();
    CHECK_EQUAL(worker.arena->resident_bytes(), 3 * page);
}

TEST_CASE(a_buffer_outlives_the_slots_and_the_arena) {
    const BufferPointer buffer = Worker(2).make(5000);
    std::memset(buffer->data(), 1, 5000);
}

TEST_CASE(a_slot_with_buffers_at_a_fork_is_not_used_again) {
    CHECK(install_fork_events() && has_handlers == 0);
    Worker worker(5);
    CHECK_EQUAL(worker.next_slot(), 0U);
    CHECK_EQUAL(testing::in_forked_child([] { return true; }), 0);
    BufferPointer buffer = worker.make();
    CHECK_EQUAL(testing::in_forked_child([] { return true; }), 0);
    buffer.reset();
    for (int i = 0; i < 3; ++i) CHECK_EQUAL(worker.next_slot(), 1U);
    worker_at_fork = &worker;
    CHECK_EQUAL(testing::in_forked_child([] { return true; }), 0);
    worker_at_fork = nullptr;
    CHECK_EQUAL(worker.next_slot(), 2U);
    worker.slots.release();
    CHECK_EQUAL(worker.arena->resident_bytes(), 2 * Arena::round_to_pages(1));
    CHECK_EQUAL(testing::in_forked_child([] {  // a worker is itself forked
                    Worker child(3);
                    return child.next_slot() == 0 && child.next_slot() == 0;
                }),
                0);
}

TEST_CASE(a_forked_child_of_a_worker_has_no_slots) {
    Worker worker(3);
    const BufferPointer buffer = worker.make(5000);
    std::memset(buffer->data(), 1, 5000);
    CHECK_EQUAL(testing::in_forked_child([&] {
                    ArenaSlots& slots = worker.slots;
                    bool is_refused = slots.allocate(1) == nullptr && !slots.find(buffer->data(), 1);
                    is_refused = is_refused && !slots.append(buffer->data(), 1) && !slots.end_batch();
                    slots.begin_batch();
                    slots.release();
                    return is_refused && !slots.set_free(0) && slots.allocate(1) == nullptr;
                }),
                0);
    CHECK(buffer->data()[0] == 1 && buffer->data()[4999] == 1);
}

TEST_CASE(buffers_that_other_threads_drop_never_lie_in_a_slot_that_is_used) {
    constexpr std::size_t kSize = 3000;
    Worker worker(6);
    struct Kept {
        BufferPointer buffer;
        std::uint8_t value = 0;
    };
    std::atomic<Kept*> handed{nullptr};
    std::atomic<bool> is_over{false};
    std::atomic<int> num_wrong{0};
    const auto drop = [&] {
        while (!is_over) {
            const std::unique_ptr<Kept> kept(handed.exchange(nullptr));
            for (std::size_t at = 0; kept != nullptr && at < kSize; ++at) {
                num_wrong += kept->buffer->data()[at] != kept->value;
            }
        }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) threads.emplace_back(drop);
    for (std::uint64_t i = 0; i < testing::rounds(20000); ++i) {
        auto kept = std::make_unique<Kept>(Kept{worker.make(kSize), static_cast<std::uint8_t>(i)});
        if (kept->buffer == nullptr) continue;
        std::memset(kept->buffer->data(), kept->value, kSize);
        const std::unique_ptr<Kept> before(handed.exchange(kept.release()));
    }
    is_over = true;
    for (std::thread& thread : threads) thread.join();
    const std::unique_ptr<Kept> last(handed.load());
    CHECK_EQUAL(num_wrong.load(), 0);
}

}  // namespace fastload

#include "processes/slots.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "arenas.h"
#include "check.h"
#include "forked_child.h"
#include "rounds.h"

namespace fastload {
namespace {

using testing::in_forked_child;
using testing::make_arena;
using testing::resident_pages;
using BufferPointer = std::shared_ptr<ArenaSlots::Buffer>;

constexpr std::size_t kSlotBytes = Arena::kMinSlotBytes;
constexpr std::size_t kNone = SIZE_MAX;
constexpr std::uint64_t kPatience = 64;

// The slot of memory that was allocated; kNone for a null pointer.
std::size_t slot_of(const Arena& arena, const BufferPointer& buffer) {
    if (buffer == nullptr) return kNone;
    return static_cast<std::size_t>(buffer->data - arena.slot(0)) / arena.slot_bytes();
}

// Makes a batch of one buffer, dropped at once; returns its slot.
std::size_t next_slot(const Arena& arena, ArenaSlots* slots) {
    slots->begin_batch();
    return slot_of(arena, slots->allocate(1));
}

// Makes a batch of `size` bytes and sends it; returns its slot.
std::size_t send(ArenaSlots* slots, std::size_t size) {
    slots->begin_batch();
    const BufferPointer buffer = slots->allocate(size);
    if (buffer != nullptr) CHECK(slots->find(buffer->data, size).has_value());
    return slots->end_batch().value_or(kNone);
}

void run_batches(ArenaSlots* slots, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
        slots->begin_batch();
        CHECK(!slots->end_batch());
    }
}

}  // namespace

TEST_CASE(a_batch_goes_into_the_first_slot_whose_answer_is_copied) {
    ArenaSlots slots(make_arena(4));
    CHECK_EQUAL(send(&slots, 100), 0U);
    CHECK_EQUAL(send(&slots, 100), 1U);
    CHECK_EQUAL(send(&slots, 100), 2U);
    CHECK(slots.set_free(1));
    CHECK_EQUAL(send(&slots, 100), 1U);
    CHECK(slots.set_free(2));
    CHECK(slots.set_free(0));
    CHECK_EQUAL(send(&slots, 100), 0U);
}

TEST_CASE(only_a_slot_with_an_answer_can_be_set_free) {
    ArenaSlots slots(make_arena(3));
    CHECK(!slots.set_free(0));
    CHECK_EQUAL(send(&slots, 100), 0U);
    CHECK(!slots.set_free(1));
    CHECK(!slots.set_free(3));
    CHECK(!slots.set_free(SIZE_MAX));
    CHECK(slots.set_free(0));
    CHECK(!slots.set_free(0));
}

TEST_CASE(a_slot_whose_batch_was_not_sent_is_free_at_once) {
    const auto arena = make_arena(3);
    ArenaSlots slots(arena);
    for (int i = 0; i < 3; ++i) CHECK_EQUAL(next_slot(*arena, &slots), 0U);
    CHECK(!slots.end_batch());
    CHECK(!slots.end_batch());
}

TEST_CASE(a_slot_is_not_used_while_a_buffer_in_it_lives) {
    const auto arena = make_arena(4);
    ArenaSlots slots(arena);
    slots.begin_batch();
    BufferPointer first = slots.allocate(10);
    BufferPointer second = slots.allocate(10);
    CHECK_EQUAL(next_slot(*arena, &slots), 1U);
    first.reset();
    CHECK_EQUAL(next_slot(*arena, &slots), 1U);
    second.reset();
    CHECK_EQUAL(next_slot(*arena, &slots), 0U);
}

TEST_CASE(without_a_free_slot_a_batch_is_copied_into_the_last_one) {
    const auto arena = make_arena(2);
    ArenaSlots slots(arena);
    CHECK_EQUAL(send(&slots, 10), 0U);
    const char text[] = "a batch";
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(text);

    slots.begin_batch();
    CHECK(slots.allocate(10) == nullptr);
    const auto place = slots.append(bytes, sizeof text);
    CHECK(place && place->slot == 1 && place->offset == 0);
    CHECK(std::memcmp(arena->slot(1), text, sizeof text) == 0);
    const auto next = slots.append(bytes, sizeof text);
    CHECK(next && next->slot == 1 && next->offset == 64);
    CHECK_EQUAL(slots.end_batch().value_or(kNone), 1U);

    slots.begin_batch();  // one answer at a time
    CHECK(slots.allocate(10) == nullptr);
    CHECK(!slots.append(bytes, sizeof text));
    CHECK(!slots.find(arena->slot(1), 1));
    CHECK(!slots.end_batch());

    CHECK(slots.set_free(1));
    slots.begin_batch();
    CHECK(slots.append(bytes, sizeof text).has_value());
    CHECK_EQUAL(slots.end_batch().value_or(kNone), 1U);
    CHECK(slots.set_free(0));
    CHECK_EQUAL(next_slot(*arena, &slots), 0U);
}

TEST_CASE(buffers_are_aligned_and_end_with_their_slot) {
    const auto arena = make_arena(2);
    ArenaSlots slots(arena);
    slots.begin_batch();
    CHECK(slots.allocate(0) == nullptr);
    std::vector<BufferPointer> buffers;
    for (const std::size_t size : {1U, 64U, 65U, 4095U}) buffers.push_back(slots.allocate(size));
    const std::uint8_t* end = arena->slot(0);
    for (const BufferPointer& buffer : buffers) {
        CHECK_EQUAL(reinterpret_cast<std::uintptr_t>(buffer->data) % 64, 0U);
        CHECK(buffer->data >= end && buffer->data < end + 64);
        end = buffer->data + buffer->size;
    }
    CHECK(slots.allocate(kSlotBytes) == nullptr);
    CHECK(slots.allocate(SIZE_MAX) == nullptr);
    const std::size_t rest = kSlotBytes - 64 - 64 - 128 - 4096;
    CHECK(slots.allocate(rest + 1) == nullptr);
    CHECK(slots.allocate(rest) != nullptr);
    CHECK(slots.allocate(1) == nullptr);
    CHECK(!slots.append(end, 1));
}

TEST_CASE(only_memory_of_the_batch_is_found) {
    const auto arena = make_arena(3);
    ArenaSlots slots(arena);
    CHECK(!slots.find(arena->slot(0), 1));
    CHECK(slots.allocate(1) == nullptr);
    slots.begin_batch();
    const BufferPointer old = slots.allocate(1000);
    slots.begin_batch();
    const BufferPointer buffer = slots.allocate(1000);
    CHECK(!slots.find(old->data, 1000));
    CHECK(!slots.find(buffer->data, 1001));
    CHECK(!slots.find(buffer->data - 1, 2));
    CHECK(!slots.find(buffer->data, 0));
    CHECK(!slots.find(buffer->data + 1, SIZE_MAX));
    CHECK(!slots.find(reinterpret_cast<const std::uint8_t*>(&slots), 1));
    CHECK(!slots.append(buffer->data, 0));
    const auto place = slots.find(buffer->data + 10, 990);
    CHECK(place && place->slot == 1 && place->offset == 10);
    const auto copy = slots.append(old->data, 1000);
    CHECK(copy && copy->slot == 1 && copy->offset == 1024);
    CHECK_EQUAL(slots.end_batch().value_or(kNone), 1U);
    CHECK(!slots.find(buffer->data, 1));
    CHECK(slots.allocate(1) == nullptr);
}

TEST_CASE(a_buffer_outlives_the_slots_and_the_arena) {
    BufferPointer buffer;
    {
        ArenaSlots slots(make_arena(2));
        slots.begin_batch();
        buffer = slots.allocate(5000);
    }
    std::memset(buffer->data, 1, 5000);
}

TEST_CASE(memory_comes_before_it_is_used_and_stays) {
    const std::size_t page = Arena::round_to_pages(1);
    const auto arena = make_arena(3);
    ArenaSlots slots(arena);
    slots.begin_batch();
    static_cast<void>(slots.allocate(10 * page));
    CHECK_EQUAL(arena->resident_bytes(), 10 * page);
    for (int i = 0; i < 10; ++i) CHECK_EQUAL(next_slot(*arena, &slots), 0U);
    CHECK_EQUAL(arena->resident_bytes(), 10 * page);
    slots.release();
    CHECK_EQUAL(arena->resident_bytes(), 0U);
}

TEST_CASE(a_slot_that_no_batch_needs_gives_its_memory_back) {
    const std::size_t page = Arena::round_to_pages(1);
    const auto arena = make_arena(3);
    ArenaSlots slots(arena);
    CHECK_EQUAL(send(&slots, page), 0U);
    CHECK_EQUAL(send(&slots, 3 * page), 1U);
    CHECK(slots.set_free(0));
    CHECK(slots.set_free(1));
    run_batches(&slots, kPatience);
    CHECK_EQUAL(resident_pages(*arena, 1, 0, kSlotBytes), 3U);
    run_batches(&slots, 2);
    CHECK_EQUAL(resident_pages(*arena, 1, 0, kSlotBytes), 0U);
}

TEST_CASE(a_slot_gives_back_memory_that_is_more_than_twice_the_largest_batch) {
    const std::size_t page = Arena::round_to_pages(1);
    const auto arena = make_arena(3);
    ArenaSlots slots(arena);
    const auto run = [&](std::size_t size) {
        CHECK_EQUAL(send(&slots, size), 0U);
        CHECK(slots.set_free(0));
    };
    run(20 * page);
    for (std::uint64_t i = 0; i <= 2 * kPatience; ++i) run(i == kPatience + 10 ? 10 * page : page);
    CHECK_EQUAL(resident_pages(*arena, 0, 0, kSlotBytes), 20U);
    for (std::uint64_t i = 0; i <= 2 * kPatience; ++i) run(i % 5 == 0 ? 4 * page - 1 : page);
    CHECK_EQUAL(resident_pages(*arena, 0, 0, kSlotBytes), 4U);
    run(20 * page);
    CHECK_EQUAL(resident_pages(*arena, 0, 0, kSlotBytes), 20U);
}

TEST_CASE(memory_that_an_answer_or_a_buffer_needs_is_never_given_back) {
    const auto arena = make_arena(4);
    ArenaSlots slots(arena);
    slots.begin_batch();
    const BufferPointer kept = slots.allocate(kSlotBytes);
    std::memset(kept->data, 1, kSlotBytes);
    slots.begin_batch();
    std::memset(slots.allocate(kSlotBytes)->data, 2, kSlotBytes);
    CHECK(slots.find(arena->slot(1), kSlotBytes).has_value());
    CHECK_EQUAL(slots.end_batch().value_or(kNone), 1U);
    run_batches(&slots, 3 * kPatience);
    CHECK(kept->data[0] == 1 && kept->data[kSlotBytes - 1] == 1);
    CHECK(arena->slot(1)[0] == 2 && arena->slot(1)[kSlotBytes - 1] == 2);
    slots.release();
    CHECK_EQUAL(arena->resident_bytes(), kSlotBytes);
}

TEST_CASE(a_slot_with_buffers_at_a_fork_is_not_used_again) {
    CHECK(install_fork_events());
    const auto arena = make_arena(4);
    ArenaSlots slots(arena);
    slots.begin_batch();
    slots.allocate(10).reset();
    slots.begin_batch();
    BufferPointer buffer = slots.allocate(10);
    slots.begin_batch();
    CHECK_EQUAL(next_slot(*arena, &slots), 1U);
    CHECK_EQUAL(in_forked_child([] { return true; }), 0);
    buffer.reset();
    for (int i = 0; i < 3; ++i) CHECK_EQUAL(next_slot(*arena, &slots), 1U);
    slots.release();
    CHECK_EQUAL(arena->resident_bytes(), Arena::round_to_pages(1));
}

TEST_CASE(a_forked_child_reads_its_buffers_and_takes_no_slot) {
    CHECK(install_fork_events());
    const auto arena = make_arena(3);
    ArenaSlots slots(arena);
    int pipe[2];
    CHECK(::pipe(pipe) == 0);
    slots.begin_batch();
    BufferPointer buffer = slots.allocate(kSlotBytes);
    std::memset(buffer->data, 1, kSlotBytes);
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(20);
        ::close(pipe[1]);
        char byte = 0;
        bool is_right = ::read(pipe[0], &byte, 1) == 0;  // the parent has used its slots again
        for (std::size_t at = 0; at < kSlotBytes; ++at) is_right = is_right && buffer->data[at] == 1;
        is_right = is_right && slots.allocate(1) == nullptr && !slots.find(buffer->data, 1);
        is_right = is_right && !slots.append(buffer->data, 1) && !slots.end_batch() && !slots.set_free(0);
        buffer.reset();
        slots.begin_batch();
        slots.release();
        _exit(is_right && slots.allocate(1) == nullptr ? 0 : 1);
    }
    buffer.reset();
    for (std::uint64_t i = 0; i < 2 * kPatience; ++i) {
        slots.begin_batch();
        buffer = slots.allocate(kSlotBytes);
        std::memset(buffer->data, 2, kSlotBytes);
        buffer.reset();
    }
    slots.release();
    ::close(pipe[0]);
    ::close(pipe[1]);
    int status = -1;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

TEST_CASE(buffers_dropped_in_other_threads_never_lie_in_a_slot_that_is_used) {
    constexpr std::size_t kSize = 3000;
    const auto arena = make_arena(6);
    ArenaSlots slots(arena);
    struct Kept {
        BufferPointer buffer;
        std::uint8_t value = 0;
    };
    std::atomic<Kept*> handed{nullptr};
    std::atomic<bool> is_over{false};
    std::atomic<int> num_wrong{0};
    const auto drop = [&] {
        std::vector<std::unique_ptr<Kept>> held;
        while (!is_over) {
            if (Kept* const kept = handed.exchange(nullptr)) held.emplace_back(kept);
            if (held.size() < 4) continue;
            for (std::size_t at = 0; at < kSize; ++at) num_wrong += held[0]->buffer->data[at] != held[0]->value;
            held.erase(held.begin());
        }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) threads.emplace_back(drop);
    for (std::uint64_t i = 0; i < testing::rounds(20000); ++i) {
        slots.begin_batch();
        auto kept = std::make_unique<Kept>(Kept{slots.allocate(kSize), static_cast<std::uint8_t>(i)});
        if (kept->buffer == nullptr) {
            std::this_thread::yield();
            continue;
        }
        std::memset(kept->buffer->data, kept->value, kSize);
        const std::unique_ptr<Kept> before(handed.exchange(kept.release()));
    }
    is_over = true;
    for (std::thread& thread : threads) thread.join();
    const std::unique_ptr<Kept> last(handed.load());
    CHECK_EQUAL(num_wrong.load(), 0);
}

}  // namespace fastload

#include "processes/slots.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "base/checked_math.h"

namespace fastload {
namespace {

constexpr std::size_t kAlignment = 64;
// Batches after which memory that none of them needed is freed.
constexpr std::uint64_t kPatience = 64;

// The forks of this process: counted before the child gets its copy of the memory, and again after. A child has no fork
// under way.
std::atomic<std::uint64_t> num_forks_begun{0};
std::atomic<std::uint64_t> num_forks_ended{0};

void begin_fork() { num_forks_begun.fetch_add(1); }
void end_fork() { num_forks_ended.fetch_add(1); }
void end_forks_in_child() { num_forks_ended.store(num_forks_begun.load()); }

struct Slot {
    // A drop releases it, so that all reads of the memory are done before the slot is used again.
    std::atomic<std::uint32_t> num_buffers{0};
    std::atomic<bool> is_retired{false};  // a forked child may have buffers in it
    bool is_busy = false;                 // an answer lies in it
    std::size_t used = 0;                 // bytes of its last batch
    std::size_t populated = 0;            // bytes from its beginning that have memory
    std::size_t peak = 0;                 // the largest `used` since batch number `peak_since`
    std::uint64_t peak_since = 0;

    bool is_free() const noexcept {
        return !is_busy && num_buffers.load(std::memory_order_acquire) == 0 && !is_retired.load();
    }
};

}  // namespace

struct ArenaSlots::State {
    explicit State(std::shared_ptr<const Arena> memory) : arena(std::move(memory)), slots(arena->num_slots()) {}

    const std::shared_ptr<const Arena> arena;
    std::vector<Slot> slots;

    std::size_t sending_slot() const noexcept { return slots.size() - 1; }
};

namespace {

// Keeps a slot from being used again.
class SlotToken {
  public:
    SlotToken(Slot* slot) noexcept : slot_(slot) { slot_->num_buffers.fetch_add(1); }
    SlotToken(const SlotToken&) = delete;  // counts once
    SlotToken& operator=(const SlotToken&) = delete;
    ~SlotToken() {
        if (num_forks_begun.load() != num_forks_before_) slot_->is_retired.store(true);
        slot_->num_buffers.fetch_sub(1, std::memory_order_release);
    }

  private:
    Slot* const slot_;
    // A fork that had ended by then has no copy of the buffer. Any other may have one.
    const std::uint64_t num_forks_before_ = num_forks_ended.load();
};

}  // namespace

bool install_fork_events() noexcept { return pthread_atfork(begin_fork, end_fork, end_forks_in_child) == 0; }

ArenaSlots::ArenaSlots(std::shared_ptr<const Arena> arena) : state_(std::make_shared<State>(std::move(arena))) {}

ArenaSlots::~ArenaSlots() = default;

bool ArenaSlots::set_free(std::size_t slot) noexcept {
    if (!is_owner()) return false;
    const std::lock_guard<std::mutex> lock(mutex_);
    return slot < state_->slots.size() && std::exchange(state_->slots[slot].is_busy, false);
}

void ArenaSlots::begin_batch() noexcept {
    if (!is_owner()) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    ++num_batches_;
    trim();
    std::size_t chosen = 0;
    while (chosen < state_->sending_slot() && !state_->slots[chosen].is_free()) ++chosen;
    current_.reset();
    has_answer_ = false;
    Slot& slot = state_->slots[chosen];
    if (slot.is_busy) return;  // the sending slot
    current_ = chosen;
    slot.used = 0;
}

SharedBytes ArenaSlots::allocate(std::size_t size) {
    struct Owned {
        Owned(std::shared_ptr<State> slots, std::size_t slot) : state(std::move(slots)), token(&state->slots[slot]) {}
        Span<std::uint8_t> bytes;
        std::shared_ptr<State> state;
        SlotToken token;
    };
    if (!is_owner()) return nullptr;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!current_ || *current_ == state_->sending_slot()) return nullptr;
    auto owned = std::make_shared<Owned>(state_, *current_);
    const std::optional<std::size_t> offset = take(size);
    if (!offset) return nullptr;
    owned->bytes = {state_->arena->slot(*current_) + *offset, size};
    return {owned, &owned->bytes};
}

std::optional<ArenaSlots::Place> ArenaSlots::find(const std::uint8_t* memory, std::size_t size) noexcept {
    if (!is_owner()) return std::nullopt;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!current_ || size == 0) return std::nullopt;
    const auto first = reinterpret_cast<std::uintptr_t>(state_->arena->slot(*current_));
    const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(memory) - first;
    const std::size_t used = state_->slots[*current_].used;
    if (offset > used || size > used - offset) return std::nullopt;
    has_answer_ = true;
    return Place{*current_, offset};
}

std::optional<ArenaSlots::Place> ArenaSlots::append(const std::uint8_t* memory, std::size_t size) noexcept {
    if (!is_owner()) return std::nullopt;
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::optional<std::size_t> offset = take(size);
    if (!offset) return std::nullopt;
    std::memcpy(state_->arena->slot(*current_) + *offset, memory, size);
    has_answer_ = true;
    return Place{*current_, *offset};
}

std::optional<std::size_t> ArenaSlots::end_batch() noexcept {
    if (!is_owner()) return std::nullopt;
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::optional<std::size_t> ended = std::exchange(current_, std::nullopt);
    if (!ended || !has_answer_) return std::nullopt;
    state_->slots[*ended].is_busy = true;
    return ended;
}

void ArenaSlots::release() noexcept {
    if (!is_owner()) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    current_.reset();
    for (std::size_t slot = 0; slot < state_->slots.size(); ++slot) {
        const Slot& released = state_->slots[slot];
        if (released.num_buffers.load() == 0 && !released.is_retired.load()) cut(slot, 0);
    }
}

// Takes `size` bytes of the batch's slot, which have memory then; returns their offset.
std::optional<std::size_t> ArenaSlots::take(std::size_t size) noexcept {
    if (!current_ || size == 0) return std::nullopt;
    Slot& slot = state_->slots[*current_];
    std::size_t offset = 0;
    if (!checked_round_up(slot.used, kAlignment, &offset) || !state_->arena->has(*current_, offset, size)) {
        return std::nullopt;
    }
    const std::size_t end = offset + size;
    if (end > slot.populated) {
        const std::size_t populated = Arena::round_to_pages(end);
        if (!state_->arena->populate(*current_, slot.populated, populated - slot.populated)) {
            state_->arena->remove(*current_, slot.populated, populated - slot.populated);
            return std::nullopt;
        }
        slot.populated = populated;
    }
    slot.used = end;
    slot.peak = std::max(slot.peak, end);
    return offset;
}

// Frees the memory of a slot from `size` bytes on.
void ArenaSlots::cut(std::size_t slot, std::size_t size) noexcept {
    const std::size_t kept = Arena::round_to_pages(size);
    std::size_t& populated = state_->slots[slot].populated;
    if (kept >= populated) return;
    state_->arena->remove(slot, kept, populated - kept);
    populated = kept;
}

void ArenaSlots::trim() noexcept {
    for (std::size_t number = 0; number < state_->slots.size(); ++number) {
        Slot& slot = state_->slots[number];
        if (num_batches_ - slot.peak_since < kPatience || !slot.is_free()) continue;
        if (slot.populated / 2 > slot.peak) cut(number, slot.peak);
        slot.peak = 0;
        slot.peak_since = num_batches_;
    }
}

}  // namespace fastload

// The slots of an arena as the worker process uses them: which batch lies in which one.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "base/span.h"
#include "processes/arena.h"

namespace fastload {

// Note [arena slots]
// The worker alone chooses the slot of a batch, and never waits for one. A slot is free if
// - the parent has copied the answer in it, and says so by its number (set_free()),
// - no buffer in it lives in this process: the user's code may keep batches, and
// - no buffer in it lived when this process forked: the child may still read it.
// The batch goes into the first free slot. If there is none, it goes into the last slot, which has no buffers: the
// samples lie in other memory, and what is sent is copied there, if no other answer lies in it.

// Counts the forks of this process from now on. Call once, before the first ArenaSlots; returns false if the system
// refuses (out of memory).
bool install_fork_events() noexcept;

// Thread-safe; in a forked child of the process that made it there is no room and nothing is found. Buffers may be
// dropped in any thread.
class ArenaSlots {
    struct State;

  public:
    struct Place {
        std::size_t slot;
        std::size_t offset;
    };

    explicit ArenaSlots(std::shared_ptr<const Arena> arena);
    ~ArenaSlots();

    // The parent has copied the answer in `slot`. Returns false if there is no answer in it.
    [[nodiscard]] bool set_free(std::size_t slot) noexcept;

    // Chooses the slot of the next batch, and ends the one before, without an answer, if that has not been done. Frees
    // memory of slots that were not used, or not half used, in the last 64 batches.
    void begin_batch() noexcept;
    // Uninitialised memory in the batch's slot, aligned to 64 bytes. The slot stays mapped and is not used again while
    // the memory lives. Null if it has no room, or `size` is 0.
    SharedBytes allocate(std::size_t size);
    // Returns where in the batch's slot this memory is, if it is there; it belongs to the answer then.
    std::optional<Place> find(const std::uint8_t* memory, std::size_t size) noexcept;
    // Copies memory into the batch's slot, as a part of the answer, if there is room.
    std::optional<Place> append(const std::uint8_t* memory, std::size_t size) noexcept;
    // Returns the slot of the batch if an answer lies in it, which keeps it until set_free().
    std::optional<std::size_t> end_batch() noexcept;

    // Frees the memory of all slots but those that a forked child may read. Call when the parent needs no answer and
    // this process no batch any more.
    void release() noexcept;

  private:
    std::optional<std::size_t> take(std::size_t size) noexcept;
    void cut(std::size_t slot, std::size_t size) noexcept;
    void trim() noexcept;
    bool is_owner() const noexcept { return ::getpid() == owner_pid_; }

    const pid_t owner_pid_ = ::getpid();
    const std::shared_ptr<State> state_;
    std::mutex mutex_;  // guards all below, and the slots except for their atomics
    std::optional<std::size_t> current_;
    bool has_answer_ = false;
    std::uint64_t num_batches_ = 0;
};

}  // namespace fastload

// Memory that a worker process fills and its parent copies batches out of.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/mapping.h"
#include "base/unique_fd.h"

namespace fastload {

// Slots of equal size in memory that processes share: a memfd, or where the system refuses one, shared anonymous memory
// or a file without a name in /dev/shm.
// Most of it is address space alone: a page takes memory from its first use on. Owns its mapping in this process and
// its descriptor; movable. A forked child inherits both. The memory exists until no process maps it any more, or until
// remove(). ArenaSlots decides which slot may be written to.
class Arena {
  public:
    static constexpr std::size_t kMinSlotBytes = std::size_t{1} << 20;
    // The last slot is for sending alone: Note [arena slots].
    static constexpr std::size_t kMinSlots = 2;

    enum class For : std::uint8_t { kForkedWorker, kOtherProcess };  // another process needs the descriptor

    // Maps `num_slots` slots of `max_slot_bytes` each, or of the largest half, quarter, ... that the system allows, at
    // least kMinSlotBytes. If the process's address space is limited (RLIMIT_AS), all slots together take at most a
    // sixteenth of what is left of it. If none can be mapped, is_mapped() is false and *error an error number.
    static Arena create(std::size_t num_slots, std::size_t max_slot_bytes, For user, int* error) noexcept;
    // Maps the arena of another process. `descriptor` stays the caller's and may be closed now. A file that is smaller
    // than its slots gives EINVAL. `is_limited` is the other arena's.
    static Arena open(int descriptor, std::size_t num_slots, std::size_t slot_bytes, bool is_limited,
                      int* error) noexcept;

    bool is_mapped() const noexcept { return memory_.data() != nullptr; }
    // -1: none.
    int descriptor() const noexcept { return file_.get(); }
    void close_descriptor() noexcept { file_ = UniqueFd(); }
    // Whether it is in a file system, which may be full. populate() may need the descriptor then.
    bool is_limited() const noexcept { return is_limited_; }
    std::size_t num_slots() const noexcept { return num_slots_; }
    std::size_t slot_bytes() const noexcept { return slot_bytes_; }
    // The bytes of the pages that the first `size` bytes of a slot touch.
    static std::size_t round_to_pages(std::size_t size) noexcept;

    // Only for a slot of the arena.
    std::uint8_t* slot(std::size_t slot) const noexcept { return memory_.data() + slot * slot_bytes_; }
    // Tells whether a slot has these bytes.
    bool has(std::size_t slot, std::size_t offset, std::size_t size) const noexcept;

    // Gives the bytes from `offset` on memory, so that writing to them cannot fail. Returns false if there is none.
    // `offset` is a multiple of the page size. Older kernels than Linux 5.14 do nothing here but to a limited arena;
    // writing faults there.
    [[nodiscard]] bool populate(std::size_t slot, std::size_t offset, std::size_t size) const noexcept;
    // Frees the memory of bytes, in all processes: they are zeros then. `offset` is a multiple of the page size. An
    // error leaves the memory as it is.
    void remove(std::size_t slot, std::size_t offset, std::size_t size) const noexcept;
    // The same for all slots.
    void remove_all() const noexcept { remove(0, 0, num_slots_ * slot_bytes_); }

    // The memory that all processes together use in it, in whole pages. Without a descriptor the page tables tell it,
    // which takes about a second for 64 GiB of address space.
    std::size_t resident_bytes() const noexcept;

  private:
    static Arena create_in(UniqueFd file, std::size_t num_slots, std::size_t max_slot_bytes, int* error) noexcept;

    Mapping memory_;
    std::size_t num_slots_ = 0;
    std::size_t slot_bytes_ = 0;
    bool is_limited_ = false;
    UniqueFd file_;
};

}  // namespace fastload

#include "processes/arena.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "base/checked_math.h"

namespace fastload {
namespace {

constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, which older headers do not have

std::size_t page_bytes() noexcept { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

// The share of the address space left to a limited process that an arena may take: workers have one each, and the
// program needs the rest.
constexpr std::size_t kLimitedShare = 16;

// Returns how many bytes an arena may map: SIZE_MAX where the process's address space is not limited.
std::size_t most_bytes() noexcept {
    rlimit limit;
    if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
    char text[64] = {};  // man 5 proc_pid_statm: the first number is the pages of the address space
    const UniqueFd file(::open("/proc/self/statm", O_RDONLY | O_CLOEXEC));
    if (!file.is_open() || ::read(file.get(), text, sizeof text - 1) <= 0) return limit.rlim_cur / kLimitedShare;
    const rlim_t used = std::strtoull(text, nullptr, 10) * page_bytes();
    return limit.rlim_cur > used ? (limit.rlim_cur - used) / kLimitedShare : 0;
}

// Maps `size` bytes of a file, or of anonymous memory for -1. Returns none with an error number if it fails.
Mapping map_shared(int file, std::size_t size, int* error) noexcept {
    const int kind = file < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;
    // mlockall(MCL_FUTURE) locks each new mapping, which would give all of this one memory if it could be accessed.
    void* const data = ::mmap(nullptr, size, PROT_NONE, kind | MAP_NORESERVE, file, 0);
    if (data == MAP_FAILED) {
        *error = errno;
        return {};
    }
    Mapping mapping(static_cast<std::uint8_t*>(data), size);
    if (::munlock(data, size) != 0 || ::mprotect(data, size, PROT_READ | PROT_WRITE) != 0) {
        *error = errno;
        return {};
    }
    ::madvise(data, size, MADV_DONTDUMP);  // advice: a core dump without it is larger
    return mapping;
}

// Makes a file in the memory of the system that has no name any more. It is not open, with an error number, if that
// fails.
UniqueFd open_nameless(int* error) noexcept {
    char path[] = "/dev/shm/fastload-XXXXXX";
    UniqueFd file(::mkostemp(path, O_CLOEXEC));
    if (!file.is_open() || ::unlink(path) != 0) {
        *error = errno;
        file = UniqueFd();
    }
    return file;
}

}  // namespace

Arena Arena::create(std::size_t num_slots, std::size_t max_slot_bytes, For user, int* error) noexcept {
    UniqueFd file(::memfd_create("fastload", MFD_CLOEXEC));
    if (file.is_open()) {
        Arena arena = create_in(std::move(file), num_slots, max_slot_bytes, error);
        if (arena.is_mapped()) return arena;
    }
    if (user == For::kForkedWorker) return create_in(UniqueFd(), num_slots, max_slot_bytes, error);
    file = open_nameless(error);
    if (!file.is_open()) return Arena();
    Arena arena = create_in(std::move(file), num_slots, max_slot_bytes, error);
    arena.is_limited_ = true;
    return arena;
}

Arena Arena::create_in(UniqueFd file, std::size_t num_slots, std::size_t max_slot_bytes, int* error) noexcept {
    Arena arena;
    *error = ENOMEM;
    for (std::size_t bytes = std::min(max_slot_bytes, most_bytes() / num_slots);
         bytes >= kMinSlotBytes && !arena.is_mapped(); bytes /= 2) {
        const std::size_t slot_bytes = bytes - bytes % page_bytes();
        std::size_t size = 0;
        if (!checked_multiply(num_slots, slot_bytes, &size)) continue;
        if (file.is_open() && ::ftruncate(file.get(), static_cast<off_t>(size)) != 0) {
            *error = errno;
            continue;
        }
        arena.memory_ = map_shared(file.get(), size, error);
        arena.num_slots_ = num_slots;
        arena.slot_bytes_ = slot_bytes;
    }
    arena.file_ = std::move(file);
    return arena;
}

Arena Arena::open(int descriptor, std::size_t num_slots, std::size_t slot_bytes, bool is_limited, int* error) noexcept {
    Arena arena;
    arena.is_limited_ = is_limited;
    if (is_limited) arena.file_ = UniqueFd(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
    struct stat facts;
    std::size_t size = 0;
    if (::fstat(descriptor, &facts) != 0) {
        *error = errno;
    } else if (!checked_multiply(num_slots, slot_bytes, &size) || size == 0 || slot_bytes % page_bytes() != 0 ||
               static_cast<std::uint64_t>(facts.st_size) < size) {
        *error = EINVAL;
    } else {
        arena.memory_ = map_shared(descriptor, size, error);
        arena.num_slots_ = num_slots;
        arena.slot_bytes_ = slot_bytes;
    }
    return arena;
}

std::size_t Arena::round_to_pages(std::size_t size) noexcept {
    const std::size_t page = page_bytes();
    return (size + page - 1) / page * page;
}

bool Arena::has(std::size_t slot, std::size_t offset, std::size_t size) const noexcept {
    return slot < num_slots_ && offset <= slot_bytes_ && size <= slot_bytes_ - offset;
}

bool Arena::populate(std::size_t slot, std::size_t offset, std::size_t size) const noexcept {
    std::uint8_t* const memory = this->slot(slot) + offset;
    if (size == 0 || ::madvise(memory, size, kPopulateWrite) == 0) return true;
    if (errno != EINVAL) return false;
    // An older kernel. Writing would end the process if the file system is full.
    if (!is_limited_) return true;
    int result = 0;
    do {
        result = ::fallocate(file_.get(), 0, memory - memory_.data(), static_cast<off_t>(size));
    } while (result != 0 && errno == EINTR);
    return result == 0;
}

void Arena::remove(std::size_t slot, std::size_t offset, std::size_t size) const noexcept {
    if (size > 0) ::madvise(this->slot(slot) + offset, size, MADV_REMOVE);
}

std::size_t Arena::resident_bytes() const noexcept {
    struct stat facts;
    if (file_.is_open() && ::fstat(file_.get(), &facts) == 0) {
        constexpr std::size_t kBlockBytes = 512;  // the unit of st_blocks
        return static_cast<std::size_t>(facts.st_blocks) * kBlockBytes;
    }
    unsigned char is_resident[4096];
    const std::size_t page = page_bytes();
    const std::size_t size = num_slots_ * slot_bytes_;
    std::size_t num_pages = 0;
    for (std::size_t at = 0; at < size; at += sizeof is_resident * page) {
        const std::size_t part = std::min(size - at, sizeof is_resident * page);
        if (::mincore(memory_.data() + at, part, is_resident) != 0) break;
        num_pages += static_cast<std::size_t>(std::count_if(is_resident, is_resident + part / page,
                                                            [](unsigned char flags) { return (flags & 1) != 0; }));
    }
    return num_pages * page;
}

}  // namespace fastload

// Memory after which every access is an error.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <new>

namespace fastload::testing {

// `size_bytes` zeros that end at a page that may be neither read nor written: a kernel that goes on ends the process.
// Owns its pages.
class GuardedMemory {
  public:
    explicit GuardedMemory(std::size_t size_bytes) {
        const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
        const std::size_t used_bytes = (size_bytes + page - 1) / page * page;
        mapped_bytes_ = used_bytes + page;
        mapping_ = ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mapping_ == MAP_FAILED) throw std::bad_alloc();
        guard_ = static_cast<std::uint8_t*>(mapping_) + used_bytes;
        if (::mprotect(guard_, page, PROT_NONE) != 0) throw std::bad_alloc();
    }
    ~GuardedMemory() { ::munmap(mapping_, mapped_bytes_); }
    GuardedMemory(const GuardedMemory&) = delete;
    GuardedMemory& operator=(const GuardedMemory&) = delete;

    // Its last `count` bytes, at most `size_bytes`.
    std::uint8_t* last(std::size_t count) const { return guard_ - count; }

  private:
    std::size_t mapped_bytes_ = 0;
    void* mapping_ = nullptr;
    std::uint8_t* guard_ = nullptr;
};

}  // namespace fastload::testing

#include "base/mapping.h"

#include <sys/mman.h>

#include "base/checked_math.h"

namespace fastload {
namespace {

// Whole huge pages: fewer faults at first use and fewer TLB misses later.
constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
constexpr std::size_t kPageBytes = 4096;

}  // namespace

Mapping::~Mapping() {
    if (data_ != nullptr) ::munmap(data_, size_);
}

Mapping Mapping::create(std::size_t size) noexcept {
    const std::size_t granularity = size >= kHugePageBytes ? kHugePageBytes : kPageBytes;
    std::size_t rounded = 0;
    if (!checked_round_up(size, granularity, &rounded)) return {};
    void* data = ::mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) return {};
    ::madvise(data, rounded, MADV_HUGEPAGE);  // advice: without huge pages everything works, with more faults
    return {static_cast<std::uint8_t*>(data), rounded};
}

}  // namespace fastload

#include "failing_allocation.h"

#include <atomic>
#include <cstdlib>

namespace fastload::testing {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

// Constant-initialised: allocations happen before main.
std::atomic<std::int64_t> allocations_left{kNever};
std::atomic<bool> is_for_good{false};
std::atomic<bool> has_refused{false};
std::atomic<std::int64_t> num_asked{0};

bool is_refused() {
    ++num_asked;
    if (allocations_left.load() == kNever) return false;
    const std::int64_t left = allocations_left.fetch_sub(1);
    if (left != 1 && (left > 1 || !is_for_good)) return false;
    has_refused = true;
    return true;
}

void* allocate(std::size_t size) { return is_refused() ? nullptr : std::malloc(size == 0 ? 1 : size); }

void* allocate_aligned(std::size_t size, std::align_val_t alignment) {
    const auto step = static_cast<std::size_t>(alignment);
    return is_refused() ? nullptr : std::aligned_alloc(step, (size + step - 1) / step * step);
}

}  // namespace

FailingAllocation::FailingAllocation(std::int64_t n, bool for_good) {
    has_refused = false;
    is_for_good = for_good;
    allocations_left = n;
}

FailingAllocation::~FailingAllocation() { allocations_left = kNever; }

bool FailingAllocation::has_failed() { return has_refused; }

std::int64_t num_allocations() { return num_asked; }

}  // namespace fastload::testing

void* operator new(std::size_t size) {
    if (void* memory = fastload::testing::allocate(size)) return memory;
    throw std::bad_alloc();
}

void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return fastload::testing::allocate(size); }

// The sanitizers' own array operators do not call the ones above.
void* operator new[](std::size_t size) { return operator new(size); }

void* operator new[](std::size_t size, const std::nothrow_t& tag) noexcept { return operator new(size, tag); }

void* operator new(std::size_t size, std::align_val_t alignment) {
    if (void* memory = fastload::testing::allocate_aligned(size, alignment)) return memory;
    throw std::bad_alloc();
}

void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
    return fastload::testing::allocate_aligned(size, alignment);
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

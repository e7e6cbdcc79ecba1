#include "failing_allocation.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>

namespace fastload::testing {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

// Constant-initialised: allocations happen before main.
std::atomic<std::int64_t> allocations_left{kNever};
std::atomic<bool> is_for_good{false};
std::atomic<bool> has_refused{false};

void* allocate(std::size_t size) {
    if (allocations_left.load() != kNever) {
        const std::int64_t left = allocations_left.fetch_sub(1);
        if (left == 1 || (left < 1 && is_for_good)) {
            has_refused = true;
            return nullptr;
        }
    }
    return std::malloc(size == 0 ? 1 : size);
}

}  // namespace

FailingAllocation::FailingAllocation(std::int64_t n, bool for_good) {
    has_refused = false;
    is_for_good = for_good;
    allocations_left = n;
}

FailingAllocation::~FailingAllocation() { allocations_left = kNever; }

bool FailingAllocation::has_failed() { return has_refused; }

}  // namespace fastload::testing

void* operator new(std::size_t size) {
    if (void* memory = fastload::testing::allocate(size)) return memory;
    throw std::bad_alloc();
}

void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return fastload::testing::allocate(size); }

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

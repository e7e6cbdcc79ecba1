// An operator new that counts, and that can be made to fail. Replaces the global one of the whole test program.
#pragma once

#include <cstdint>

namespace fastload::testing {

// From its construction to its destruction the n-th allocation of the process (n counts from 1, over all threads) fails
// with std::bad_alloc, and with `for_good` every later one too. Only one may exist at a time.
class FailingAllocation {
  public:
    FailingAllocation(std::int64_t n, bool for_good);
    ~FailingAllocation();
    FailingAllocation(const FailingAllocation&) = delete;  // a scope, not a value
    FailingAllocation& operator=(const FailingAllocation&) = delete;

    // True if an allocation was refused.
    static bool has_failed();
};

// The number of allocations of the process so far.
std::int64_t num_allocations();

}  // namespace fastload::testing

// Calls of the system for files that stand before libc's in the whole test program, so that something can happen at
// one of them.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace fastload::testing {

// From its construction to its destruction the calls of this thread count that hooked_calls.cpp has. Before the n-th
// one (n counts from 1; 0: none) `hook` runs, in which none counts, and says what becomes of it. One at a time.
class HookedCalls {
  public:
    // An error number with which the call fails, or one of these.
    using Hook = std::function<int()>;
    static constexpr int kGoesOn = 0;
    static constexpr int kMovesOneByte = -1;  // what reads or writes; any other call goes on

    explicit HookedCalls(int n = 0, Hook hook = {});
    // The n-th one fails.
    HookedCalls(int n, int error);
    ~HookedCalls();
    HookedCalls(const HookedCalls&) = delete;  // a scope, not a value
    HookedCalls& operator=(const HookedCalls&) = delete;

    // By name, in order. Those behind the first thousand are not kept.
    const std::vector<std::string>& names() const { return names_; }
    // Whether there was an n-th call.
    bool was_reached() const { return n_ > 0 && count_ >= n_; }

    // Counts a call that is about to be made, and says what becomes of it. For hooked_calls.cpp.
    int next(const char* name);

  private:
    int n_;
    Hook hook_;
    int count_ = 0;
    bool is_in_hook_ = false;
    std::vector<std::string> names_;
};

// What the next calls of getrandom() do, in this order, before they are as any other call here: fail, or give at most
// so many bytes.
struct ScriptedRandomCall {
    std::size_t most_bytes;
    int error;
};
std::vector<ScriptedRandomCall>& scripted_random_calls();

}  // namespace fastload::testing

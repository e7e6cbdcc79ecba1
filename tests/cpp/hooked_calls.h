// Replaces libc's file functions in the whole test program, so that something can happen at one of their calls.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace fastload::testing {

// From its construction to its destruction, counts this thread's calls of the functions in hooked_calls.cpp. Before the
// n-th one (n counts from 1; 0: none) `hook` runs, in which calls do not count, and decides the call's result. Only one
// may exist at a time.
class HookedCalls {
  public:
    // The error number with which the call fails, or one of these.
    using Hook = std::function<int()>;
    static constexpr int kGoesOn = 0;
    static constexpr int kMovesOneByte = -1;  // for reads and writes; any other call goes on

    explicit HookedCalls(int n = 0, Hook hook = {});
    // The n-th call fails.
    HookedCalls(int n, int error);
    ~HookedCalls();
    HookedCalls(const HookedCalls&) = delete;  // a scope, not a value
    HookedCalls& operator=(const HookedCalls&) = delete;

    // By name, in order. Only the first thousand are kept.
    const std::vector<std::string>& names() const { return names_; }
    // True if there was an n-th call.
    bool was_reached() const { return n_ > 0 && count_ >= n_; }

    // Counts a call that is about to be made, and returns its result. For hooked_calls.cpp.
    int next(const char* name);

  private:
    int n_;
    Hook hook_;
    int count_ = 0;
    bool is_in_hook_ = false;
    std::vector<std::string> names_;
};

// The results of the next calls of getrandom(), in this order: fail, or return at most this many bytes. Later calls are
// hooked like any other.
struct ScriptedRandomCall {
    std::size_t most_bytes;
    int error;
};
std::vector<ScriptedRandomCall>& scripted_random_calls();

}  // namespace fastload::testing

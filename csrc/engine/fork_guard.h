// Tells a process that it was forked from the process in which an engine was started.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <utility>

namespace fastload {

// Note [after fork]
// A forked child has a copy of the engine's memory but none of its threads, and a thread that no longer exists may hold
// any mutex. So every public entry of the engine first compares the generation it was created in with the current one,
// and refuses if they differ. Destructors leak what they own, because destroying a condition variable with a waiter
// that does not exist waits for ever.

// The number of forks above this process. Written only between fork() and its return in the child, where one thread
// exists.
inline std::atomic<std::uint32_t> g_fork_generation{0};

inline std::uint32_t fork_generation() noexcept { return g_fork_generation.load(std::memory_order_relaxed); }

// Installs the counter's handler. Call once, before the first engine; returns false if the system refuses (out of
// memory).
inline bool install_fork_counter() noexcept {
    const auto count_fork = [] { g_fork_generation.fetch_add(1, std::memory_order_relaxed); };
    return pthread_atfork(nullptr, nullptr, count_fork) == 0;
}

// Owns a T and destroys it, except in a process forked since: there it is leaked, see Note [after fork].
template <typename T>
class LeakedAfterFork {
  public:
    explicit LeakedAfterFork(T value) noexcept : value_(std::move(value)) {}
    ~LeakedAfterFork() {
        if (generation_ == fork_generation()) value_.~T();
    }
    LeakedAfterFork(const LeakedAfterFork&) = delete;  // one owner
    LeakedAfterFork& operator=(const LeakedAfterFork&) = delete;

    T& operator*() noexcept { return value_; }
    const T& operator*() const noexcept { return value_; }

  private:
    const std::uint32_t generation_ = fork_generation();
    union {
        T value_;
    };
};

}  // namespace fastload

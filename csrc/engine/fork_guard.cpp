#include "engine/fork_guard.h"

#include <pthread.h>

#include <atomic>

namespace fastload {
namespace {

// Written only between fork() and its return in the child, where one thread exists.
std::atomic<std::uint32_t> generation{0};

void count_fork() { generation.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

std::uint32_t fork_generation() noexcept { return generation.load(std::memory_order_relaxed); }

bool install_fork_counter() noexcept { return pthread_atfork(nullptr, nullptr, count_fork) == 0; }

}  // namespace fastload

// Python objects whose last native owner is gone, waiting for a thread that may release them.
#pragma once

#include <mutex>
#include <utility>
#include <vector>

#include "engine/fork_guard.h"

namespace fastload {

// Note [tokens]
// Batch memory that torch allocated is kept alive by an opaque token. Its last reference may fall in a native thread,
// which must not touch Python; it leaves the token here, and the next Python thread that calls into the engine takes
// and releases it. Thread-safe. What is left at exit is the process's.
class DeferredReleases {
  public:
    // Never throws: where there is no memory for the list the token is leaked. Does nothing in a forked child.
    void add(void* token) noexcept {
        if (is_forked()) return;
        try {
            const std::lock_guard<std::mutex> lock(mutex_);
            tokens_.push_back(token);
        } catch (...) {
            return;
        }
    }

    bool is_forked() const noexcept { return generation_ != fork_generation(); }

    std::vector<void*> take_all() {
        if (is_forked()) return {};
        const std::lock_guard<std::mutex> lock(mutex_);
        return std::exchange(tokens_, {});
    }

  private:
    const std::uint32_t generation_ = fork_generation();
    std::mutex mutex_;
    std::vector<void*> tokens_;
};

}  // namespace fastload

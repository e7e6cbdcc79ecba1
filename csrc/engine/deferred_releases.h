// Python objects whose last native owner is gone, waiting for a thread that may release them.
#pragma once

#include <cstdint>
#include <mutex>
#include <utility>

#include "engine/fork_guard.h"

namespace fastload {

// Note [tokens]
// Batch memory that torch allocated is kept alive by an opaque token. Its last reference may fall in a native thread,
// which must not touch Python; it leaves the token here, and the next Python thread that calls into the engine takes
// and releases it. Thread-safe. What is left at exit is the process's.
class DeferredReleases {
  public:
    // Made with the object it keeps, so that no memory is needed to let go of that.
    struct Token {
        void* object = nullptr;
        Token* next = nullptr;
    };

    // Takes it over. In a forked child it is leaked.
    void add(Token* token) noexcept {
        if (is_forked()) return;
        const std::lock_guard<std::mutex> lock(mutex_);
        token->next = std::exchange(first_, token);
    }

    bool is_forked() const noexcept { return generation_ != fork_generation(); }

    // The tokens there are, linked by `next`; they are the caller's.
    Token* take_all() noexcept {
        if (is_forked()) return nullptr;
        const std::lock_guard<std::mutex> lock(mutex_);
        return std::exchange(first_, nullptr);
    }

  private:
    const std::uint32_t generation_ = fork_generation();
    std::mutex mutex_;
    Token* first_ = nullptr;
};

}  // namespace fastload

// Python objects whose last native owner is gone, waiting for a thread that may release them.
#pragma once

#include <cstdint>
#include <mutex>
#include <utility>

#include "engine/fork_guard.h"

namespace fastload {

// Note [tokens]
// An opaque token keeps batch memory alive that torch allocated. Its last reference may be dropped in a native thread,
// which must not touch Python; that thread leaves the token here, and the next Python thread that calls into the engine
// releases it. Thread-safe. Tokens left at exit are freed with the process.
class DeferredReleases {
  public:
    // Allocated together with the object it keeps, so that releasing that needs no memory.
    struct Token {
        void* object = nullptr;
        Token* next = nullptr;
    };

    // Takes ownership. In a forked child the token is leaked.
    void add(Token* token) noexcept {
        if (is_forked()) return;
        const std::lock_guard<std::mutex> lock(mutex_);
        token->next = std::exchange(first_, token);
    }

    bool is_forked() const noexcept { return generation_ != fork_generation(); }

    // Returns the current tokens, linked by `next`; the caller owns them.
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

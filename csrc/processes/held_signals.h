// Holds signals back while a process starts others.
#pragma once

#include <csignal>
#include <vector>

namespace fastload {

// While it lives, its signals are noted and come again at its end. Processes that are forked meanwhile begin with the
// signals blocked, with the actions that they had before, and with none noted.
//
// To block them is not enough: threads of the program take a blocked signal, and Python runs its handler in the main
// thread all the same. Inside of the hooks of a fork Python ignores what the handler raises.
//
// Signals are held for the whole process. Not thread-safe: Python's GIL guards it. May be nested in several threads.
class HeldSignals {
  public:
    // Throws std::system_error.
    explicit HeldSignals(const std::vector<int>& numbers);
    ~HeldSignals() { release(); }
    HeldSignals(const HeldSignals&) = delete;  // a scope, not a value
    HeldSignals& operator=(const HeldSignals&) = delete;

    // Call it in the thread that made this object. Does nothing when called again.
    void release() noexcept;

  private:
    std::vector<int> numbers_;
    sigset_t mask_before_;
};

}  // namespace fastload

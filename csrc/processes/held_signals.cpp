#include "processes/held_signals.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>

namespace fastload {
namespace {

struct HeldSignal {
    int num_holders = 0;
    struct sigaction before;
    std::atomic<bool> has_come{false};
};

HeldSignal table[NSIG];

void note(int number) { table[number].has_come.store(true, std::memory_order_relaxed); }

// Leaves an action that was set meanwhile.
void restore_action(int number) noexcept {
    struct sigaction current;
    if (::sigaction(number, nullptr, &current) != 0 || current.sa_handler != &note) return;
    ::sigaction(number, &table[number].before, nullptr);
}

// In a forked child: what has come is the parent's.
void restore_all() {
    for (int number = 1; number < NSIG; ++number) {
        HeldSignal& held = table[number];
        if (held.num_holders > 0) restore_action(number);
        held.num_holders = 0;
        held.has_come.store(false, std::memory_order_relaxed);
    }
}

void check(int error, const char* call) {
    if (error != 0) throw std::system_error(error, std::generic_category(), call);
}

void hold(int number) {
    HeldSignal& held = table[number];
    if (held.num_holders == 0) {
        struct sigaction action = {};
        action.sa_handler = &note;
        action.sa_flags = SA_RESTART | SA_ONSTACK;
        check(::sigaction(number, &action, &held.before) == 0 ? 0 : errno, "sigaction");
    }
    ++held.num_holders;
}

void let_go(int number) noexcept {
    HeldSignal& held = table[number];
    if (held.num_holders == 0 || --held.num_holders > 0) return;
    restore_action(number);
    if (held.has_come.exchange(false, std::memory_order_relaxed)) ::kill(::getpid(), number);
}

}  // namespace

HeldSignals::HeldSignals(const std::vector<int>& numbers) {
    static const int error = ::pthread_atfork(nullptr, nullptr, &restore_all);
    check(error, "pthread_atfork");
    numbers_.reserve(numbers.size());
    sigset_t blocked;
    ::sigemptyset(&blocked);
    try {
        for (const int number : numbers) {
            hold(number);
            numbers_.push_back(number);
            ::sigaddset(&blocked, number);
        }
    } catch (...) {
        for (const int number : numbers_) let_go(number);
        throw;
    }
    check(::pthread_sigmask(SIG_BLOCK, &blocked, &mask_before_), "pthread_sigmask");
}

void HeldSignals::release() noexcept {
    const std::vector<int> numbers = std::exchange(numbers_, {});
    if (numbers.empty()) return;
    // Signals that were blocked come now, and are noted.
    ::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
    for (const int number : numbers) let_go(number);
}

}  // namespace fastload

#include "bindings/bind_gil.h"

#include <time.h>

#include <chrono>

#include "bindings/without_gil.h"

namespace fastload {
namespace {

using Clock = std::chrono::steady_clock;

// Long enough for a thread that waits for the GIL to take it.
constexpr timespec kPause = {0, 50'000};

// Lets go of the GIL for a moment; returns how long it then took to get it back. The time is taken after the pause, so
// that what the system's scheduler adds to a pause does not count.
double gil_wait_seconds() {
    const Clock::time_point woken = without_gil([] {
        ::nanosleep(&kPause, nullptr);
        return Clock::now();
    });
    return std::chrono::duration<double>(Clock::now() - woken).count();
}

}  // namespace

void bind_gil(pybind11::module_& module) { module.def("gil_wait_seconds", &gil_wait_seconds); }

}  // namespace fastload

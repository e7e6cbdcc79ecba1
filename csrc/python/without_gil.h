// Native work and waits with the GIL released.
#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

namespace fastload {

// Calls `body()` without the GIL and returns its result. If the interpreter shuts down meanwhile, the thread stays here
// for ever: Python before 3.14 would unwind its stack, and so run destructors that need the GIL.
template <typename Body>
auto without_gil(Body&& body) {
    struct Released {
        PyThreadState* const state = PyEval_SaveThread();
        ~Released() {
            try {
                PyEval_RestoreThread(state);
            } catch (const abi::__forced_unwind&) {
                for (;;) ::pause();
            }
        }
    };
    const Released released;
    return body();
}

}  // namespace fastload

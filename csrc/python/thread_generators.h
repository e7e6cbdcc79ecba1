// The three generators that a thread draws from in place of the process's.
#pragma once

#include <Python.h>

#include "python/ref.h"

namespace fastload {

// Touched with the GIL.
struct ThreadGenerators {
    Ref random;  // a random.Random
    Ref numpy;   // a numpy.random.RandomState
    Ref torch;   // a torch.Generator of the CPU
};

// `generators` is part of `owner`, a Python object that is kept alive while it is set. Both are null where the thread
// draws from the process's generators.
struct ThreadSetting {
    ThreadGenerators* generators;
    PyObject* owner;
};

// Plain data in the static block of thread-local memory: one load, also in a library that is opened late.
extern __thread ThreadSetting thread_setting __attribute__((tls_model("initial-exec")));

// Null: the calling thread draws from the process's generators.
inline ThreadGenerators* generators_of_thread() noexcept { return thread_setting.generators; }

// What gives the torch.Generator that torch's functions draw from in the calling thread: a callable, kept alive while
// it is set. Null: the process's.
extern __thread PyObject* thread_draws __attribute__((tls_model("initial-exec")));

// Sets it, or null, and returns what was set before, which may be null.
Ref exchange_thread_draws(PyObject* take_generator) noexcept;

// The calling thread draws from `generators` from now on. Returns the owner of what it had before, which may be null.
Ref exchange_thread_generators(ThreadGenerators* generators, PyObject* owner) noexcept;

}  // namespace fastload

// The three generators that a thread draws from instead of the process's.
#pragma once

#include <Python.h>

#include "python/ref.h"

namespace fastload {

// Use with the GIL.
struct ThreadGenerators {
    Ref random;  // a random.Random
    Ref numpy;   // a numpy.random.RandomState
    Ref torch;   // a torch.Generator of the CPU
};

// `generators` is part of `owner`, a Python object that is kept alive while it is set. Both are null in a thread that
// draws from the process's generators.
struct ThreadSetting {
    ThreadGenerators* generators;
    PyObject* owner;
};

// Plain data in the static block of thread-local memory: reading it is one load, even in a library that is opened late.
extern __thread ThreadSetting thread_setting __attribute__((tls_model("initial-exec")));

// Returns the calling thread's generators; null: it draws from the process's.
inline ThreadGenerators* generators_of_thread() noexcept { return thread_setting.generators; }

// Makes the calling thread draw from `generators` from now on. Returns the owner of its old ones, which may be null.
Ref exchange_thread_generators(ThreadGenerators* generators, PyObject* owner) noexcept;

// random.gauss keeps every second value in an attribute of the process's random.Random. This gives each thread its own.
// Returns a descriptor for the attribute gauss_next of `type`, a subclass of random.Random. In a thread with generators
// of its own it reads and writes their random.Random, else the object's __dict__. Null with a Python error.
Ref make_gauss_next(PyTypeObject* type) noexcept;

}  // namespace fastload

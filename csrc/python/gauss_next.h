// random.gauss keeps every second value in an attribute of the process's random.Random. This gives each thread its own.
#pragma once

#include <Python.h>

#include "python/ref.h"

namespace fastload {

// Returns a descriptor for the attribute gauss_next of `type`, a subclass of random.Random. In a thread with generators
// of its own it reads and writes their random.Random, else the object's __dict__. Null with a Python error.
Ref make_gauss_next(PyTypeObject* type) noexcept;

}  // namespace fastload

// random.gauss keeps every second value in an attribute of the process's random.Random; this makes it a thread's own.
#pragma once

#include <Python.h>

#include "python/ref.h"

namespace fastload {

// A descriptor for the attribute gauss_next of `type`, a subclass of random.Random. In a thread that has generators of
// its own it is that of their random.Random, else that in the object's __dict__. Null with a Python error.
Ref make_gauss_next(PyTypeObject* type) noexcept;

}  // namespace fastload

// pybind11 without the assumption that memory suffices: Note [without memory]. Every file that uses it includes this
// first.
#pragma once

#ifdef PYBIND11_VERSION_MAJOR
#error "include bindings/pybind.h before any header of pybind11"
#endif

#include <Python.h>

#include "python/ref.h"

namespace pybind11 {

// pybind11 finds this by its name, because its own namespace comes before the global one. It looks up each keyword
// argument by a string, and does not check that string.
inline PyObject* PyUnicode_InternFromString(const char* text) {
    return fastload::checked(::PyUnicode_InternFromString(text)).release();
}

}  // namespace pybind11

#include <pybind11/pybind11.h>

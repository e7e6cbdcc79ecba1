// pybind11, for which memory may be wanting: Note [without memory]. Every file that uses it includes this first.
#pragma once

#ifdef PYBIND11_VERSION_MAJOR
#error "a header of pybind11 stands before bindings/pybind.h"
#endif

#include <Python.h>

#include "python/ref.h"

namespace pybind11 {

// What pybind11 finds by this name, since its own namespace comes before the global one. It looks up each keyword
// argument by a string, and takes that for granted.
inline PyObject* PyUnicode_InternFromString(const char* text) {
    return fastload::checked(::PyUnicode_InternFromString(text)).release();
}

}  // namespace pybind11

#include <pybind11/pybind11.h>

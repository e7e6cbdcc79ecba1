// How busy the interpreter is.
#pragma once

#include <pybind11/pybind11.h>

namespace fastload {

void bind_gil(pybind11::module_& module);

}  // namespace fastload

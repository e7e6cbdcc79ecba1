// Indexes of files, and the listing of directories, as Python sees them.
#pragma once

#include <pybind11/pybind11.h>

namespace fastload {

// Adds the index classes and the functions on directories to the module.
void bind_sources(pybind11::module_& m);

}  // namespace fastload

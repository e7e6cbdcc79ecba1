// The Python face of SampleHead.
#pragma once

#include <pybind11/pybind11.h>

namespace fastload {

// Adds the class SampleHead to the module.
void bind_head(pybind11::module_& m);

}  // namespace fastload

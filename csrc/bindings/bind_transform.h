// The Python face of the native transform.
#pragma once

#include <pybind11/pybind11.h>

namespace fastload {

// Adds the class TransformPlan (held by shared_ptr, so the engine can share it) to the module, after bind_steps().
void bind_transform(pybind11::module_& m);

}  // namespace fastload

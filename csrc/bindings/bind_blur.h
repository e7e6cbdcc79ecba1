// The parts of GaussianBlur that Python compares with torch before it trusts them.
#pragma once

#include <pybind11/pybind11.h>

namespace fastload {

// Adds `TorchGaussian`, `gaussian_weights`, `gaussian_sums` and `has_fast_blur` to the module.
void bind_blur(pybind11::module_& m);

}  // namespace fastload

// Random draws as Python sees them: for loaders, for transforms that end in Python, and for tests.
#pragma once

#include <pybind11/pybind11.h>

namespace fastload {

// Adds `UniformRule`, `TorchExp`, `DrawSource`, `CounterDraws` and `TorchDraws` to the module.
void bind_draws(pybind11::module_& m);

}  // namespace fastload

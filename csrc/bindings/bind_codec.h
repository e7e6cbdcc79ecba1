// Python's view of probe and decoder, for tests.
#pragma once

#include <pybind11/pybind11.h>

namespace fastload {

// Adds `probe` and `decode_jpeg` to `module`.
void bind_codec(pybind11::module_& module);

}  // namespace fastload

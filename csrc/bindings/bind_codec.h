// Python's view of probe and decoder, for tests and for `fastload check`; the engine does not come through here.
#pragma once

#include <pybind11/pybind11.h>

namespace fastload {

// Adds `probe` and `decode_jpeg` to `module`.
void bind_codec(pybind11::module_& module);

}  // namespace fastload

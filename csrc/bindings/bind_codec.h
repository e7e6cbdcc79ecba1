// Python's view of probe and decoder, for decode_image() and for tests; the engine does not come through here.
#pragma once

#include <pybind11/pybind11.h>

namespace fastload {

// Adds `probe`, `decode_jpeg` and `ImageDecoder` to `module`.
void bind_codec(pybind11::module_& module);

}  // namespace fastload

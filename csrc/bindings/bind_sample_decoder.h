// Samples that are made one by one: decode_image(), and those that native code begins and the user's Python ends.
#pragma once

#include <pybind11/pybind11.h>

namespace fastload {

// Adds the class SampleDecoder to the module.
void bind_sample_decoder(pybind11::module_& m);

}  // namespace fastload

// The devices of the CUDA runtime that torch has loaded.
#pragma once

#include <pybind11/pybind11.h>

namespace fastload {

// Adds DeviceBackend (held by shared_ptr) and open_cuda_device.
void bind_device(pybind11::module_& module);

}  // namespace fastload

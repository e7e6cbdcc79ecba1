// Devices: the CUDA runtime's, and the emulated one that tests step.
#pragma once

#include <pybind11/pybind11.h>

namespace fastload {

// Adds DeviceBackend (held by shared_ptr), EmulatedDevice and open_cuda_device.
void bind_device(pybind11::module_& module);

}  // namespace fastload

// The parts that make up the extension module; each bind function stands in the file named after it.
#pragma once

#include <pybind11/pybind11.h>

#include "kernels/kernel_table.h"

namespace fastload {

void bind_build_info(pybind11::module_& module);
void bind_engine(pybind11::module_& module);

// The kernel table of this process. Throws pybind11::value_error, naming the value and what is allowed, where the
// environment variable FASTLOAD_SIMD names none of this build and processor.
const KernelTable& active_kernel_table();

}  // namespace fastload

// Staging memory and the copies out of it, as Python sees them.
#pragma once

#include <pybind11/pybind11.h>

namespace fastload {

// Adds the classes StagingRing, StagingSlot and BatchCopy to the module. After bind_device().
void bind_staging(pybind11::module_& m);

}  // namespace fastload

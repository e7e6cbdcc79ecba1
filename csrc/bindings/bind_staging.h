// Staging memory and the copies out of it, as Python sees them.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "engine/batch_copy.h"

namespace fastload {

// Adds the classes StagingRing, StagingSlot and BatchCopy to the module. After bind_device().
void bind_staging(pybind11::module_& m);

// The copy behind a Python object, for Stream.submit; null for None.
std::shared_ptr<BatchCopy> batch_copy_of(const pybind11::object& object);

}  // namespace fastload

// The Python face of the native transform.
#pragma once

#include <pybind11/pybind11.h>

#include "image/plan/transform_plan.h"

namespace fastload {

// Adds the class TransformPlan (held by shared_ptr, so the engine can share it) and apply_transform to the module.
void bind_transform(pybind11::module_& m);

// The steps of one sample as TransformPlan.resolve() gives them to Python.
pybind11::list describe_steps(const ResolvedTransform& resolved);

}  // namespace fastload

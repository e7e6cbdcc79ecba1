// The Python face of the steps: one class each, which is its arguments. fastload/_core.pyi lists them.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "image/plan/operation_list.h"
#include "image/plan/step.h"
#include "image/steps/pixel_op.h"

namespace fastload {

template <typename Kind>
using StepClass = pybind11::class_<Kind, Step, std::shared_ptr<Kind>>;
template <typename Kind>
using OpClass = pybind11::class_<Kind, PixelOp, std::shared_ptr<Kind>>;

// Adds the classes Step and PixelOp to the module, and all that derive from them but GaussianBlur.
void bind_steps(pybind11::module_& m);

// Parts of it.
void bind_pixel_ops(pybind11::module_& m);
void bind_size_steps(pybind11::module_& m);
void bind_random_steps(pybind11::module_& m);
void bind_policies(pybind11::module_& m);

// What was done to a sample, as SampleReport.views tells it.
pybind11::list list_reports(const OperationList& operations);

}  // namespace fastload

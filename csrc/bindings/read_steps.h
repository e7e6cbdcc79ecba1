// From Python's dicts to the steps of a plan.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <vector>

#include "image/steps/transform_step.h"

namespace fastload {

// Reads a list of step dicts (their vocabulary: docs/transforms.md). `name` is how errors call the list. ValueError
// where a key lacks, is unknown or has a value of a wrong type; whether the values make sense together is for
// TransformPlan::create to say.
std::vector<TransformStep> read_steps(const std::string& name, const pybind11::sequence& steps);

}  // namespace fastload

// Short functions that make steps and plans.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "check.h"
#include "image/plan/transform_plan.h"
#include "image/steps/transpositions.h"

namespace fastload::testing {

template <typename Kind>
PlacedStep placed(const Kind& step, std::uint32_t position = 0) {
    return {position, std::make_shared<Kind>(step)};
}

// A step that has a width and a height.
template <typename Kind>
Kind sized(std::int32_t width, std::int32_t height) {
    Kind step;
    step.width = width;
    step.height = height;
    return step;
}

inline PlacedStep flip(double probability, std::uint32_t position = 9) {
    RandomHorizontalFlip step;
    step.probability = probability;
    return placed(step, position);
}

inline std::shared_ptr<TransformPlan> make_plan(Steps steps, OutputLayout layout = {},
                                                bool is_variable_size_allowed = true) {
    std::string problem;
    auto plan = TransformPlan::create(std::move(steps), std::move(layout),
                                      {ResizeOrder::kPillow13, is_variable_size_allowed}, &problem);
    if (plan == nullptr) report_failure(__FILE__, __LINE__, problem);
    return plan;
}

// The reason why there can be no such plan.
inline std::string problem_of(Steps steps, OutputLayout layout = {}, bool is_variable_size_allowed = true) {
    std::string problem;
    CHECK(TransformPlan::create(std::move(steps), std::move(layout), {ResizeOrder::kPillow13, is_variable_size_allowed},
                                &problem) == nullptr);
    return problem;
}

inline void check_mentions(const std::string& text, const std::string& part) {
    if (text.find(part) == std::string::npos) {
        report_failure(__FILE__, __LINE__, "\"" + text + "\" does not mention \"" + part + "\"");
    }
}

// The name of an operation that was listed for a sample.
inline std::string word_of(const ResolvedTransform& resolved, std::size_t index) {
    return std::get<const char*>(resolved.operations[index].report()[0]);
}

}  // namespace fastload::testing

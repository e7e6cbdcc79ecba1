// Whether the arguments of steps make sense. The checks return a sentence, empty where all is well.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "image/plan/output_layout.h"
#include "image/steps/transform_step.h"

namespace fastload {

// "`name` must be `allowed`, got `value`".
template <typename Value>
std::string sentence(const std::string& name, const std::string& allowed, const Value& value) {
    std::ostringstream text;
    text.precision(17);
    text << name << " must be " << allowed << ", got " << value;
    return text.str();
}

constexpr bool is_side(std::int64_t value) noexcept { return value >= 1 && value <= kMaxImageSide; }

std::string check_layout(const OutputLayout& layout);

// `step` is how the text calls it.
std::string check_blur(const std::string& step, const GaussianBlur& blur);

// Every step for itself, and that erasing comes last and its value fits `layout`, which has been checked.
std::string check_steps(const std::vector<TransformStep>& steps, const OutputLayout& layout);

}  // namespace fastload

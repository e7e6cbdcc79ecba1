// Error sentences for invalid arguments. A check returns one, empty if the argument is valid.
#pragma once

#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <utility>

#include "image/plan/image_sides.h"

namespace fastload {

constexpr double kLargestFloat = std::numeric_limits<float>::max();

// "`name` must be `allowed`, got `value`".
template <typename Value>
std::string sentence(const std::string& name, const std::string& allowed, const Value& value) {
    std::ostringstream text;
    text.precision(17);
    text << name << " must be " << allowed << ", got " << value;
    return text.str();
}

// The first problem of several checks.
template <typename... Rest>
std::string first_of(std::string problem, Rest... rest) {
    if constexpr (sizeof...(rest) == 0) {
        return problem;
    } else {
        return problem.empty() ? first_of(std::move(rest)...) : problem;
    }
}

inline std::string pair_text(double first, double second) {
    std::ostringstream text;
    text << "(" << first << ", " << second << ")";
    return text.str();
}

// Checks a width or height, which is at least `least`.
inline std::string check_side(const std::string& name, std::int32_t value, std::int32_t least = 1) {
    if (value >= least && value <= kMaxImageSide) return "";
    return sentence(name, "in " + std::to_string(least) + ".." + std::to_string(kMaxImageSide), value);
}

inline std::string check_probability(double probability) {
    return probability >= 0.0 && probability <= 1.0 ? "" : sentence("probability", "in [0, 1]", probability);
}

}  // namespace fastload

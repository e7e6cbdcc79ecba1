// Error sentences for invalid arguments. A check returns one, empty if the argument is valid.
#pragma once

#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <utility>

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

std::string pair_text(double first, double second);

// Checks a width or height, which is at least `least`.
std::string check_side(const std::string& name, std::int32_t value, std::int32_t least = 1);

std::string check_probability(double probability);

}  // namespace fastload

// Python's round().
#pragma once

#include <cmath>

namespace fastload {

// Halves are rounded to the even neighbour.
inline double round_half_even(double value) noexcept {
    const double below = std::floor(value);
    const double rest = value - below;
    if (rest != 0.5) return rest < 0.5 ? below : below + 1.0;
    return std::fmod(below, 2.0) == 0.0 ? below : below + 1.0;
}

}  // namespace fastload

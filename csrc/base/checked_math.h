// Size arithmetic that reports overflow instead of wrapping. Used before every allocation whose size comes from input.
#pragma once

#include <cstddef>

namespace fastload {

// Writes a * b to *product and returns true; returns false and leaves *product as it is if the result does not fit.
[[nodiscard]] inline bool checked_multiply(std::size_t a, std::size_t b, std::size_t* product) noexcept {
    return !__builtin_mul_overflow(a, b, product);
}

[[nodiscard]] inline bool checked_add(std::size_t a, std::size_t b, std::size_t* sum) noexcept {
    return !__builtin_add_overflow(a, b, sum);
}

// Rounds `value` up to a multiple of `multiple` (a power of two); returns false if that overflows.
[[nodiscard]] inline bool checked_round_up(std::size_t value, std::size_t multiple, std::size_t* rounded) noexcept {
    std::size_t sum = 0;
    if (!checked_add(value, multiple - 1, &sum)) return false;
    *rounded = sum & ~(multiple - 1);
    return true;
}

}  // namespace fastload

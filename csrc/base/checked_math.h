// Size arithmetic that reports overflow instead of wrapping. Used before every allocation whose size comes from input.
#pragma once

#include <cstddef>

namespace fastload {

// Writes a * b to *product and returns true, or returns false where it does not fit (product untouched by contract).
[[nodiscard]] inline bool checked_multiply(std::size_t a, std::size_t b, std::size_t* product) noexcept {
    return !__builtin_mul_overflow(a, b, product);
}

[[nodiscard]] inline bool checked_add(std::size_t a, std::size_t b, std::size_t* sum) noexcept {
    return !__builtin_add_overflow(a, b, sum);
}

// `value` rounded up to a multiple of `multiple` (a power of two), or false where that overflows.
[[nodiscard]] inline bool checked_round_up(std::size_t value, std::size_t multiple, std::size_t* rounded) noexcept {
    std::size_t sum = 0;
    if (!checked_add(value, multiple - 1, &sum)) return false;
    *rounded = sum & ~(multiple - 1);
    return true;
}

}  // namespace fastload

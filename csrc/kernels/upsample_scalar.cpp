#include <cstring>

#include "kernels/upsample.h"

namespace fastload {
namespace {

// The sums 3 * row + neighbouring row of one column, for the upper neighbour (even output rows) and the lower one (odd
// output rows). Byte `column` of the strips is the column's row 0.
struct ColumnSums {
    std::uint16_t even[8];
    std::uint16_t odd[8];

    ColumnSums() = default;
    ColumnSums(const StripNeighbours& strips, std::ptrdiff_t column) {
        std::uint8_t rows[10];
        rows[0] = strips.above[column + 7];
        std::memcpy(rows + 1, strips.current + column, 8);
        rows[9] = strips.below[column];
        for (int row = 0; row < 8; ++row) {
            even[row] = static_cast<std::uint16_t>(3 * rows[row + 1] + rows[row]);
            odd[row] = static_cast<std::uint16_t>(3 * rows[row + 1] + rows[row + 2]);
        }
    }
};

// One output column of each strip from sums that are weighted 3 to 1 in the horizontal direction.
inline void store_mixed(const ColumnSums& near, const ColumnSums& far, int bias, std::uint8_t* upper,
                        std::uint8_t* lower) {
    std::uint8_t column[16];
    for (int row = 0; row < 8; ++row) {
        column[2 * row] = static_cast<std::uint8_t>((3 * near.even[row] + far.even[row] + bias) >> 4);
        column[2 * row + 1] = static_cast<std::uint8_t>((3 * near.odd[row] + far.odd[row] + bias) >> 4);
    }
    std::memcpy(upper, column, 8);
    std::memcpy(lower, column + 8, 8);
}

}  // namespace

void upsample_h2v1_scalar(const std::uint8_t* strip, std::uint8_t* out, std::size_t columns) noexcept {
    for (std::size_t x = 0; x < columns; ++x, strip += 8, out += 16) {
        for (int row = 0; row < 8; ++row) {
            const int tripled = 3 * strip[row];
            out[row] = static_cast<std::uint8_t>((tripled + strip[row - 8] + 1) >> 2);
            out[row + 8] = static_cast<std::uint8_t>((tripled + strip[row + 8] + 2) >> 2);
        }
    }
}

void upsample_h1v2_scalar(const StripNeighbours& strips, std::uint8_t* upper, std::uint8_t* lower,
                          std::size_t columns) noexcept {
    for (std::size_t byte = 0; byte < 8 * columns; byte += 8) {
        const ColumnSums sums(strips, static_cast<std::ptrdiff_t>(byte));
        std::uint8_t column[16];
        for (int row = 0; row < 8; ++row) {
            column[2 * row] = static_cast<std::uint8_t>((sums.even[row] + 1) >> 2);
            column[2 * row + 1] = static_cast<std::uint8_t>((sums.odd[row] + 2) >> 2);
        }
        std::memcpy(upper + byte, column, 8);
        std::memcpy(lower + byte, column + 8, 8);
    }
}

void upsample_h2v2_scalar(const StripNeighbours& strips, std::uint8_t* upper, std::uint8_t* lower,
                          std::size_t columns) noexcept {
    ColumnSums previous(strips, -8);
    ColumnSums current(strips, 0);
    for (std::size_t x = 0; x < columns; ++x) {
        const ColumnSums next(strips, static_cast<std::ptrdiff_t>(8 * (x + 1)));
        store_mixed(current, previous, 8, upper + 16 * x, lower + 16 * x);
        store_mixed(current, next, 7, upper + 16 * x + 8, lower + 16 * x + 8);
        previous = current;
        current = next;
    }
}

}  // namespace fastload

#include "kernels/upsample.h"

#include <cstdint>
#include <random>
#include <vector>

#include "check.h"
#include "kernels/dispatch.h"

namespace fastload {
namespace {

// A strip of `columns` columns with one more on each side, the latter copies of the outermost ones.
struct Strip {
    std::vector<std::uint8_t> bytes;

    Strip(std::size_t columns, std::mt19937& random) : bytes((columns + 2) * 8) {
        for (std::uint8_t& byte : bytes)
            byte = static_cast<std::uint8_t>(random() % 4 == 0 ? 255 * (random() % 2) : random());
        for (std::size_t row = 0; row < 8; ++row) {
            bytes[row] = bytes[row + 8];
            bytes[(columns + 1) * 8 + row] = bytes[columns * 8 + row];
        }
    }
    const std::uint8_t* data() const { return bytes.data() + 8; }
    int at(std::ptrdiff_t x, int y) const { return bytes[static_cast<std::size_t>(8 + 8 * x + y)]; }
};

// Row -1 to 8 of the middle one of three strips.
int row_of(const Strip& above, const Strip& current, const Strip& below, std::ptrdiff_t x, int y) {
    if (y < 0) return above.at(x, 7);
    return y > 7 ? below.at(x, 0) : current.at(x, y);
}

constexpr std::uint8_t kGuard = 0xA7;

std::vector<std::uint8_t> output_of(std::size_t columns) { return std::vector<std::uint8_t>(columns * 8 + 64, kGuard); }

void check_guard(const std::vector<std::uint8_t>& output, std::size_t columns) {
    for (std::size_t i = columns * 8; i < output.size(); ++i) CHECK_EQUAL(output[i], kGuard);
}

}  // namespace

TEST_CASE(upsample_h2v1_weighs_three_to_one) {
    std::mt19937 random(1);
    for (std::size_t columns = 1; columns <= 70; ++columns) {
        const Strip strip(columns, random);
        auto out = output_of(2 * columns);
        select_kernel_table()->upsample_h2v1(strip.data(), out.data(), columns);
        for (std::size_t x = 0; x < columns; ++x) {
            const auto column = static_cast<std::ptrdiff_t>(x);
            for (int y = 0; y < 8; ++y) {
                const int near = 3 * strip.at(column, y);
                CHECK_EQUAL(out[16 * x + static_cast<std::size_t>(y)], (near + strip.at(column - 1, y) + 1) >> 2);
                CHECK_EQUAL(out[16 * x + 8 + static_cast<std::size_t>(y)], (near + strip.at(column + 1, y) + 2) >> 2);
            }
        }
        // The outermost columns are copies, as libjpeg has it.
        CHECK_EQUAL(out[3], strip.at(0, 3));
        CHECK_EQUAL(out[16 * columns - 8 + 3], strip.at(static_cast<std::ptrdiff_t>(columns) - 1, 3));
        check_guard(out, 2 * columns);
    }
}

TEST_CASE(upsample_h1v2_weighs_three_to_one) {
    std::mt19937 random(2);
    for (std::size_t columns = 1; columns <= 70; ++columns) {
        const Strip above(columns, random);
        const Strip current(columns, random);
        const Strip below(columns, random);
        auto upper = output_of(columns);
        auto lower = output_of(columns);
        select_kernel_table()->upsample_h1v2({above.data(), current.data(), below.data()}, upper.data(), lower.data(),
                                             columns);
        for (std::size_t x = 0; x < columns; ++x) {
            const auto column = static_cast<std::ptrdiff_t>(x);
            for (int y = 0; y < 16; ++y) {
                const int far = row_of(above, current, below, column, y % 2 == 0 ? y / 2 - 1 : y / 2 + 1);
                const int expected = (3 * current.at(column, y / 2) + far + (y % 2 == 0 ? 1 : 2)) >> 2;
                const auto& out = y < 8 ? upper : lower;
                CHECK_EQUAL(out[8 * x + static_cast<std::size_t>(y % 8)], expected);
            }
        }
        check_guard(upper, columns);
        check_guard(lower, columns);
    }
}

TEST_CASE(upsample_h2v2_weighs_nine_three_three_one) {
    std::mt19937 random(3);
    for (std::size_t columns = 1; columns <= 70; ++columns) {
        const Strip above(columns, random);
        const Strip current(columns, random);
        const Strip below(columns, random);
        auto upper = output_of(2 * columns);
        auto lower = output_of(2 * columns);
        select_kernel_table()->upsample_h2v2({above.data(), current.data(), below.data()}, upper.data(), lower.data(),
                                             columns);
        for (std::size_t x = 0; x < 2 * columns; ++x) {
            const auto near = static_cast<std::ptrdiff_t>(x / 2);
            const std::ptrdiff_t far = x % 2 == 0 ? near - 1 : near + 1;
            for (int y = 0; y < 16; ++y) {
                const int far_row = y % 2 == 0 ? y / 2 - 1 : y / 2 + 1;
                const auto sum = [&](std::ptrdiff_t column) {
                    return 3 * current.at(column, y / 2) + row_of(above, current, below, column, far_row);
                };
                const int expected = (3 * sum(near) + sum(far) + (x % 2 == 0 ? 8 : 7)) >> 4;
                const auto& out = y < 8 ? upper : lower;
                CHECK_EQUAL(out[8 * x + static_cast<std::size_t>(y % 8)], expected);
            }
        }
        check_guard(upper, 2 * columns);
        check_guard(lower, 2 * columns);
    }
}

}  // namespace fastload

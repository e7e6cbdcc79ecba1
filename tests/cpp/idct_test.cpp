#include "kernels/idct.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>

#include "check.h"
#include "kernels/dispatch.h"

namespace fastload {
namespace {

struct Case {
    alignas(64) std::int16_t coefficients[64] = {};
    alignas(64) std::uint16_t quantization[64] = {};
    alignas(64) std::uint8_t samples[64] = {};

    void run() { select_kernel_table()->inverse_dct(coefficients, quantization, samples); }
    bool is_flat(int value) const {
        return std::all_of(samples, samples + 64, [value](std::uint8_t sample) { return sample == value; });
    }
};

// The double sum of T.81 A.3.3 at one sample, with the level shift.
double sample_of(const Case& block, int column, int row) {
    const double pi = std::acos(-1.0);
    double sum = 0;
    for (int i = 0; i < 64; ++i) {
        const int u = kNaturalOrder[i] % 8;
        const int v = kNaturalOrder[i] / 8;
        const double scale = (u == 0 ? std::sqrt(0.5) : 1) * (v == 0 ? std::sqrt(0.5) : 1) / 4;
        sum += scale * block.coefficients[i] * block.quantization[i] * std::cos((2 * column + 1) * u * pi / 16) *
               std::cos((2 * row + 1) * v * pi / 16);
    }
    return std::clamp(sum + 128, 0.0, 255.0);
}

}  // namespace

TEST_CASE(idct_is_within_rounding_of_the_definition) {
    std::mt19937 random(1);
    for (int round = 0; round < 300; ++round) {
        Case block;
        for (int i = 0; i < 64; ++i) {
            block.quantization[i] = static_cast<std::uint16_t>(1 + random() % 20);
            if (random() % 64 < 1 + static_cast<unsigned>(round) % 40) {
                block.coefficients[i] = static_cast<std::int16_t>(static_cast<int>(random() % 41) - 20);
            }
        }
        block.run();
        for (int column = 0; column < 8; ++column) {
            for (int row = 0; row < 8; ++row) {
                // Half for rounding to an integer, and the error that 13-bit constants and the first pass may add.
                CHECK(std::abs(block.samples[8 * column + row] - sample_of(block, column, row)) < 0.5 + 0.6);
            }
        }
    }
}

TEST_CASE(idct_of_dc_alone_is_flat) {
    for (int dc = -1100; dc <= 1100; ++dc) {
        Case block;
        block.coefficients[0] = static_cast<std::int16_t>(dc);
        block.quantization[0] = 1;
        block.run();
        CHECK(block.is_flat(std::clamp(((dc * 4 + 16) >> 5) + 128, 0, 255)));
    }
}

TEST_CASE(idct_wraps_products_and_the_short_first_pass_to_16_bits) {
    Case block;
    block.coefficients[0] = 1000;
    block.quantization[0] = 255;  // 255000 = 3 * 65536 + 58392: -7144 as 16 bits, times 4 -28576
    block.run();
    CHECK(block.is_flat(0));
    block.quantization[0] = 66;  // 66000: 464
    block.run();
    CHECK(block.is_flat(128 + 58));
    block.quantization[0] = 9;  // 9000: times 4 is 36000, which wraps to -29536
    block.run();
    CHECK(block.is_flat(0));
    // The same DC with something in another row is not wrapped but saturated.
    block.coefficients[2] = 1;
    block.quantization[2] = 0;
    block.run();
    CHECK(block.is_flat(255));
}

TEST_CASE(idct_knows_rows_from_columns) {
    Case block;
    block.coefficients[1] = 100;  // horizontal frequency 1
    block.quantization[1] = 1;
    block.run();
    // 128 + 12.5 * sqrt(2) * cos((2 x + 1) pi / 16), the same in all rows
    const std::uint8_t expected[8] = {145, 143, 138, 131, 125, 118, 113, 111};
    for (int column = 0; column < 8; ++column) {
        for (int row = 0; row < 8; ++row) CHECK_EQUAL(block.samples[8 * column + row], expected[column]);
    }
}

}  // namespace fastload

#include "kernels/idct.h"

#include "check.h"
#include "kernel_variants.h"

namespace fastload {
namespace {

constexpr std::uint8_t kGuard = 0xA7;

struct Case {
    alignas(64) std::int16_t coefficients[64] = {};
    alignas(64) std::uint16_t quantization[64] = {};
    alignas(64) std::uint8_t samples[64] = {};

    // Checks the promises about memory as well: the coefficients are cleared, and nothing outside of the block is
    // written.
    void run(const KernelTable& kernels) {
        struct {
            alignas(64) std::int16_t coefficients[64 + 32];
            alignas(64) std::uint8_t strip[3 * 64];
        } memory;
        std::memset(&memory, kGuard, sizeof memory);
        std::memcpy(memory.coefficients, coefficients, sizeof coefficients);
        std::uint16_t unchanged[64];
        std::memcpy(unchanged, quantization, sizeof quantization);
        kernels.inverse_dct(memory.coefficients, quantization, memory.strip + 64);
        std::memcpy(samples, memory.strip + 64, sizeof samples);
        CHECK(
            std::all_of(memory.coefficients, memory.coefficients + 64, [](std::int16_t value) { return value == 0; }));
        CHECK(std::memcmp(unchanged, quantization, sizeof quantization) == 0);
        std::memset(memory.coefficients, kGuard, sizeof coefficients);
        std::memset(memory.strip + 64, kGuard, sizeof samples);
        const auto* const bytes = reinterpret_cast<const std::uint8_t*>(&memory);
        CHECK(std::all_of(bytes, bytes + sizeof memory, [](std::uint8_t byte) { return byte == kGuard; }));
    }
    bool equals_scalar() const {
        Case reference = *this;
        inverse_dct_scalar(reference.coefficients, reference.quantization, reference.samples);
        return std::memcmp(samples, reference.samples, sizeof samples) == 0;
    }
};

// Runs a block through every table.
void check_variants(Case& block) {
    for_each_kernel_table([&block](const KernelTable& kernels) {
        block.run(kernels);
        CHECK(block.equals_scalar());
    });
}

void fill_quantization(Case& block, std::uint16_t value) { std::fill_n(block.quantization, 64, value); }

// The zigzag position of a coefficient in natural order.
int zigzag_position(int row, int column) {
    return static_cast<int>(std::find(kNaturalOrder, kNaturalOrder + 64, 8 * row + column) - kNaturalOrder);
}

constexpr std::int16_t kExtremes[] = {INT16_MIN, INT16_MIN + 1, -8193, -8192, -1, 1, 8191, 8192, 16384, INT16_MAX};

}  // namespace

TEST_CASE(idct_variants_agree_on_every_single_coefficient) {
    for (int position = 0; position < 64; ++position) {
        for (const std::int16_t value : kExtremes) {
            for (const int quantization : {0, 1, 2, 3, 255, 32767, 32768, 65535}) {
                Case block;
                fill_quantization(block, static_cast<std::uint16_t>(quantization));
                block.coefficients[position] = value;
                check_variants(block);
            }
        }
    }
}

TEST_CASE(idct_variants_agree_on_row_0_alone_around_the_wrap_of_the_short_pass) {
    std::mt19937 random(2);
    for (int round = 0; round < 2000; ++round) {
        Case block;
        fill_quantization(block, 1);
        for (int column = 0; column < 8; ++column) {
            if (random() % 2 == 0) continue;
            const int near_limit = (random() % 2 == 0 ? 8192 : -8192) + static_cast<int>(random() % 5) - 2;
            block.coefficients[zigzag_position(0, column)] =
                static_cast<std::int16_t>(random() % 3 == 0 ? static_cast<int>(random() % 65536) - 32768 : near_limit);
        }
        check_variants(block);
        // One coefficient below, even one that quantization makes zero, and the pass saturates.
        const int below = zigzag_position(1 + static_cast<int>(random() % 7), static_cast<int>(random() % 8));
        block.coefficients[below] = 1;
        block.quantization[below] = static_cast<std::uint16_t>(random() % 2);
        check_variants(block);
    }
}

// The sums of inputs 0 and 4, 1 and 5, 3 and 7 wrap to 16 bits: in the first pass if the coefficients are large, and in
// the second if the first one's results are.
TEST_CASE(idct_variants_agree_where_sums_of_inputs_wrap) {
    constexpr int kPairs[4][2] = {{0, 4}, {1, 5}, {3, 7}, {2, 6}};
    for (const auto& pair : kPairs) {
        for (const std::int16_t first : kExtremes) {
            for (const std::int16_t second : kExtremes) {
                for (int lane = 0; lane < 8; ++lane) {
                    Case block;
                    fill_quantization(block, 1);
                    block.coefficients[zigzag_position(pair[0], lane)] = first;
                    block.coefficients[zigzag_position(pair[1], lane)] = second;
                    check_variants(block);
                    Case turned;
                    fill_quantization(turned, 1);
                    turned.coefficients[zigzag_position(lane, pair[0])] = first;
                    turned.coefficients[zigzag_position(lane, pair[1])] = second;
                    check_variants(turned);
                }
            }
        }
    }
}

TEST_CASE(idct_variants_agree_on_random_blocks_from_sane_to_absurd) {
    std::mt19937 random(3);
    for (int round = 0; round < 8000; ++round) {
        Case block;
        const unsigned magnitude = 1U << (random() % 16 + 1);
        const unsigned density = 1 + static_cast<unsigned>(random() % 64);
        const unsigned steps = 1U << (random() % 17);
        for (int i = 0; i < 64; ++i) {
            block.quantization[i] = static_cast<std::uint16_t>(random() % steps + (steps == 1 ? 1 : 0));
            if (random() % 64 >= density) continue;
            const int value = static_cast<int>(random() % magnitude) - static_cast<int>(magnitude / 2);
            block.coefficients[i] =
                random() % 8 == 0 && round % 4 == 0 ? kExtremes[random() % 10] : static_cast<std::int16_t>(value);
        }
        check_variants(block);
    }
}

}  // namespace fastload

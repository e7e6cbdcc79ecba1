#include "kernels/color.h"

#include "check.h"
#include "kernel_variants.h"

namespace fastload {
namespace {

struct Pixel {
    int first;
    int second;
    int third;
};

int saturated(int value) { return std::clamp(value, 0, 255); }

// 1.402, 0.34414, 0.71414 and 1.772 times 2^16.
Pixel expected_rgb(const Pixel& ycc) {
    const int cb = ycc.second - 128;
    const int cr = ycc.third - 128;
    return {saturated(ycc.first + ((91881 * cr + 32768) >> 16)),
            saturated(ycc.first + ((-22554 * cb - 46802 * cr + 32768) >> 16)),
            saturated(ycc.first + ((116130 * cb + 32768) >> 16))};
}

}  // namespace

TEST_CASE(color_equals_the_rounded_fixed_point_formula_for_all_chroma) {
    std::vector<std::uint8_t> red(65536);
    std::vector<std::uint8_t> green(65536);
    std::vector<std::uint8_t> blue(65536);
    for_each_kernel_table([&](const KernelTable& kernels) {
        int wrong = 0;
        for (int y = 0; y < 256; y += 5) {
            for (std::size_t i = 0; i < 65536; ++i) {
                red[i] = static_cast<std::uint8_t>(y);
                green[i] = static_cast<std::uint8_t>(i & 255);
                blue[i] = static_cast<std::uint8_t>(i >> 8);
            }
            kernels.ycc_to_rgb(red.data(), green.data(), blue.data(), 65536);
            for (std::size_t i = 0; i < 65536; ++i) {
                const Pixel expected = expected_rgb({y, static_cast<int>(i & 255), static_cast<int>(i >> 8)});
                wrong += red[i] != expected.first || green[i] != expected.second || blue[i] != expected.third;
            }
        }
        CHECK_EQUAL(wrong, 0);
    });
}

TEST_CASE(color_takes_any_count_at_any_8_byte_alignment_and_leaves_the_rest_alone) {
    std::mt19937 random(1);
    for_each_kernel_table([&random](const KernelTable& kernels) {
        for (std::size_t count = 0; count <= 264; count += 8) {
            const std::size_t begin = 8 * (random() % 8);
            std::vector<std::uint8_t> planes[3];
            for (auto& plane : planes) {
                plane.resize(begin + count + 8 * (random() % 9));
                for (std::uint8_t& sample : plane) sample = static_cast<std::uint8_t>(random());
            }
            const std::vector<std::uint8_t> before[3] = {planes[0], planes[1], planes[2]};
            kernels.ycc_to_rgb(planes[0].data() + begin, planes[1].data() + begin, planes[2].data() + begin, count);
            for (std::size_t i = 0; i < begin + count; ++i) {
                const Pixel ycc = {before[0][i], before[1][i], before[2][i]};
                const Pixel expected = i < begin ? ycc : expected_rgb(ycc);
                CHECK_EQUAL(planes[0][i], expected.first);
                CHECK_EQUAL(planes[1][i], expected.second);
                CHECK_EQUAL(planes[2][i], expected.third);
            }
            for (int p = 0; p < 3; ++p) {
                const auto behind = static_cast<std::ptrdiff_t>(begin + count);
                CHECK(std::equal(planes[p].begin() + behind, planes[p].end(), before[p].begin() + behind));
            }
        }
    });
}

}  // namespace fastload

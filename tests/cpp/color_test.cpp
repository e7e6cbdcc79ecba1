#include "kernels/color.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "check.h"
#include "kernels/dispatch.h"

namespace fastload {
namespace {

int saturated(int value) { return std::clamp(value, 0, 255); }

}  // namespace

TEST_CASE(color_equals_the_rounded_fixed_point_formula_for_all_chroma) {
    std::vector<std::uint8_t> red(65536);
    std::vector<std::uint8_t> green(65536);
    std::vector<std::uint8_t> blue(65536);
    for (const int y : {0, 1, 77, 128, 200, 254, 255}) {
        for (int i = 0; i < 65536; ++i) {
            const auto index = static_cast<std::size_t>(i);
            red[index] = static_cast<std::uint8_t>(y);
            green[index] = static_cast<std::uint8_t>(i & 255);
            blue[index] = static_cast<std::uint8_t>(i >> 8);
        }
        select_kernel_table()->ycc_to_rgb(red.data(), green.data(), blue.data(), 65536);
        int wrong = 0;
        for (int i = 0; i < 65536; ++i) {
            const auto index = static_cast<std::size_t>(i);
            const int cb = (i & 255) - 128;
            const int cr = (i >> 8) - 128;
            // 1.402, 0.34414, 0.71414 and 1.772 times 2^16
            wrong += red[index] != saturated(y + ((91881 * cr + 32768) >> 16));
            wrong += green[index] != saturated(y + ((-22554 * cb - 46802 * cr + 32768) >> 16));
            wrong += blue[index] != saturated(y + ((116130 * cb + 32768) >> 16));
        }
        CHECK_EQUAL(wrong, 0);
    }
}

TEST_CASE(color_leaves_what_follows_alone) {
    for (std::size_t count = 0; count <= 136; count += 8) {
        std::vector<std::uint8_t> planes[3];
        for (auto& plane : planes) plane.assign(count + 64, 100);
        select_kernel_table()->ycc_to_rgb(planes[0].data(), planes[1].data(), planes[2].data(), count);
        for (const auto& plane : planes) {
            for (std::size_t i = count; i < plane.size(); ++i) CHECK_EQUAL(plane[i], 100);
        }
    }
}

}  // namespace fastload

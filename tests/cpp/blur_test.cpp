#include "kernels/blur.h"

#include "check.h"
#include "kernel_variants.h"

namespace fastload {
namespace {

constexpr std::uint8_t kUntouched = 0xAB;

// A padded plane of noise with weights that add up to about 1, and room for a result.
struct Plane {
    BlurJob job;
    std::vector<float> padded;
    std::vector<float> weights;
    std::vector<std::uint8_t> result;

    Plane(int width, int height, int kernel_width, int kernel_height, unsigned seed) {
        std::mt19937 random(seed);
        const auto aligned =
            (static_cast<std::size_t>(width) + kBlurColumnAlignment - 1) / kBlurColumnAlignment * kBlurColumnAlignment;
        const auto rows = static_cast<std::size_t>(height + kernel_height - 1);
        job.padded_stride = aligned + static_cast<std::size_t>(kernel_width - 1);
        // One float off any alignment; columns that no pixel needs are not zero.
        padded.resize(1 + rows * job.padded_stride);
        for (float& value : padded) value = static_cast<float>(random() % 256);
        weights.resize(static_cast<std::size_t>(kernel_width * kernel_height));
        float sum = 0.0F;
        for (float& weight : weights) sum += weight = std::exp(-static_cast<float>(random() % 4096) / 400.0F);
        for (float& weight : weights) weight /= sum;
        job.destination_stride_bytes = aligned + kBlurColumnAlignment;
        result.assign(job.destination_stride_bytes * static_cast<std::size_t>(height), kUntouched);
        job.padded = padded.data() + 1;
        job.weights = weights.data();
        job.kernel_width = kernel_width;
        job.kernel_height = kernel_height;
        job.width = width;
        job.height = height;
        job.destination = result.data();
    }

    // The contract, pixel by pixel.
    float sum_at(std::size_t x, std::size_t y) const {
        float sum = 0.0F;
        const auto kernel_width = static_cast<std::size_t>(job.kernel_width);
        for (std::size_t i = 0; i < static_cast<std::size_t>(job.kernel_height); ++i) {
            for (std::size_t j = 0; j < kernel_width; ++j) {
                const float weight = weights[i * kernel_width + j];
                sum = std::fma(job.padded[(y + i) * job.padded_stride + x + j], weight, sum);
            }
        }
        return sum;
    }

    bool is_expected() const {
        for (std::size_t y = 0; y < static_cast<std::size_t>(job.height); ++y) {
            const std::uint8_t* row = result.data() + y * job.destination_stride_bytes;
            for (std::size_t x = 0; x < static_cast<std::size_t>(job.width); ++x) {
                if (row[x] != static_cast<std::uint8_t>(std::nearbyint(sum_at(x, y)))) return false;
            }
            // The block of columns after the last one is not touched.
            if (row[job.destination_stride_bytes - 1] != kUntouched) return false;
        }
        return true;
    }
};

void check_sizes(BlurFunction blur, int kernel_width, int kernel_height) {
    unsigned seed = 1;
    for (const int height : {1, 2, 3, 4, 5, 7, 8, 9}) {
        for (const int width : {1, 7, 8, 9, 15, 16, 17, 24, 25, 48, 49, 95, 96, 97, 111, 113}) {
            Plane plane(width, height, kernel_width, kernel_height, seed++);
            blur(plane.job);
            CHECK(plane.is_expected());
        }
    }
}

TEST_CASE(blur_adds_each_product_in_one_rounding_row_by_row) {
    for_each_kernel_table([](const KernelTable& kernels) {
        for (const int side : {1, 3, 5, 9}) check_sizes(kernels.blur, side, side);
        check_sizes(kernels.blur, 1, 7);
        check_sizes(kernels.blur, 11, 1);
        check_sizes(kernels.blur, 5, 3);
        Plane large(61, 13, 23, 23, 7);
        kernels.blur(large.job);
        CHECK(large.is_expected());
    });
}

TEST_CASE(blur_gives_its_sums_where_they_are_asked_for) {
    for_each_kernel_table([](const KernelTable& kernels) {
        for (const int side : {1, 3, 7}) {
            Plane plane(37, 6, side, side, 3);
            std::vector<float> sums(6 * 48, -1.0F);
            plane.job.sums = sums.data();
            plane.job.sums_stride = 48;
            plane.job.destination = nullptr;
            kernels.blur(plane.job);
            for (std::size_t y = 0; y < 6; ++y) {
                for (std::size_t x = 0; x < 37; ++x) CHECK_EQUAL(sums[y * 48 + x], plane.sum_at(x, y));
            }
        }
    });
}

// Sums that end in exactly one half: 1/2 * 2k + 1/2 * (2k + 1) = 2k + 1/2.
TEST_CASE(blur_rounds_half_to_even) {
    for_each_kernel_table([](const KernelTable& kernels) {
        Plane plane(255, 1, 3, 1, 1);
        plane.weights = {0.5F, 0.5F, 0.0F};
        plane.job.weights = plane.weights.data();
        for (std::size_t x = 1; x < plane.padded.size(); ++x) plane.padded[x] = static_cast<float>((x - 1) % 256);
        kernels.blur(plane.job);
        for (std::size_t x = 0; x < 255; ++x) CHECK_EQUAL(int{plane.result[x]}, static_cast<int>(x + x % 2));
    });
}

}  // namespace
}  // namespace fastload

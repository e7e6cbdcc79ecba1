#include "kernels/box_blur.h"

#include "check.h"
#include "image/blur/box_blur.h"
#include "image/plan/working_image.h"
#include "image/steps/blurs.h"
#include "kernel_variants.h"
#include "plan_steps.h"
#include "test_images.h"

namespace fastload {
namespace {

using Pixels = std::vector<std::uint8_t>;

Pixels random_pixels(std::size_t count, std::uint32_t seed) {
    std::mt19937 random(seed);
    Pixels pixels(count);
    for (std::uint8_t& pixel : pixels) pixel = static_cast<std::uint8_t>(random() % 3 == 0 ? 255 : random());
    return pixels;
}

// The contract of one line, pixel by pixel.
Pixels blurred(const Pixels& line, const BoxWeights& box) {
    const auto last = static_cast<std::int64_t>(line.size()) - 1;
    const auto at = [&](std::int64_t i) {
        return std::uint64_t{line[static_cast<std::size_t>(std::clamp<std::int64_t>(i, 0, last))]};
    };
    Pixels result;
    for (std::int64_t i = 0; i <= last; ++i) {
        std::uint64_t sum = (at(i - box.reach - 1) + at(i + box.reach + 1)) * box.edge_weight;
        // Pixels outside of the line are equal to its ends.
        const std::int64_t before = std::max<std::int64_t>(0, box.reach - i);
        const std::int64_t behind = std::max<std::int64_t>(0, i + box.reach - last);
        std::uint64_t inner =
            at(0) * static_cast<std::uint64_t>(before) + at(last) * static_cast<std::uint64_t>(behind);
        for (std::int64_t d = before - box.reach; d <= box.reach - behind; ++d) inner += at(i + d);
        sum += inner * box.weight;
        result.push_back(static_cast<std::uint8_t>((sum + (1U << 23)) >> 24));
    }
    return result;
}

Pixels line_of(const Pixels& lines, std::size_t k) {
    Pixels line;
    for (std::size_t i = k; i < lines.size(); i += kBoxBlurLines) line.push_back(lines[i]);
    return line;
}

}  // namespace

TEST_CASE(box_blur_kernels_match_their_contract) {
    for_each_kernel_table([](const KernelTable& kernels) {
        for (const std::int32_t length : {1, 2, 3, 7, 8, 31}) {
            const auto count = kBoxBlurLines * static_cast<std::size_t>(length);
            const Pixels from = random_pixels(count, static_cast<std::uint32_t>(length));
            for (const float radius : {0.1F, 0.99F, 1.0F, 2.5F, 6.0F, 7.3F, 30.0F, 31.5F, 400.0F, kMaxBoxRadius}) {
                const BoxWeights box = box_weights(radius);
                Pixels to(count);
                kernels.box_blur(box, from.data(), length, to.data());
                for (std::size_t k = 0; k < kBoxBlurLines; ++k) {
                    CHECK(line_of(to, k) == blurred(line_of(from, k), box));
                }
            }
        }
    });
}

TEST_CASE(box_weights_add_up_to_one_or_little_less) {
    for (float radius = 0.0F; radius < 300.0F; radius += 0.013F) {
        const BoxWeights box = box_weights(radius);
        const std::uint64_t sum =
            std::uint64_t{box.weight} * static_cast<std::uint64_t>(2 * box.reach + 1) + 2 * box.edge_weight;
        CHECK(sum <= 1U << 24 && sum + 2 > 1U << 24);
    }
    const BoxWeights widest = box_weights(kMaxBoxRadius);
    CHECK_EQUAL(widest.reach, 65535);
    CHECK(widest.weight * 131071U + 2 * widest.edge_weight <= 1U << 24);
}

TEST_CASE(blurs_check_their_radii) {
    BoxBlur box;
    CHECK(box.check().empty());
    CHECK(box.is_identity());
    box.radius = {0.0F, 65536.0F};
    testing::check_mentions(box.check(), "radius must be two numbers in 0..65535");
    ThreeBoxBlurs gaussian;
    gaussian.sigma = {-1.0F, 0.0F};
    testing::check_mentions(gaussian.check(), "sigma must be two numbers in 0..65535");
    gaussian.sigma = {NAN, 0.0F};
    CHECK(!gaussian.check().empty());
}

}  // namespace fastload

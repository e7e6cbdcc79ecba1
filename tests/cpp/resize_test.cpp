#include "kernels/resize.h"

#include <cstdlib>

#include "base/aligned_buffer.h"
#include "check.h"
#include "image/resize/resize_plan.h"
#include "image/steps/resize.h"
#include "kernel_variants.h"
#include "plan_steps.h"
#include "readable_window.h"
#include "test_images.h"

namespace fastload {
namespace {

using namespace testing;

// One pass, pixel by pixel, as in the contract of AxisTaps.
struct Grid {
    std::int32_t width;
    std::int32_t height;
    std::vector<std::uint8_t> pixels;

    std::uint8_t at(std::int32_t x, std::int32_t y) const {
        return pixels[static_cast<std::size_t>(y) * static_cast<std::size_t>(width) + static_cast<std::size_t>(x)];
    }
};

template <typename PixelAt>
std::uint8_t filter(const AxisTaps& taps, std::int32_t output, PixelAt pixel_at) {
    std::int64_t sum = std::int64_t{1} << 21;
    for (std::int32_t t = 0; t < taps.count[output]; ++t) {
        sum += std::int64_t{taps.coefficients[output * taps.stride + t]} * pixel_at(taps.first[output] + t);
    }
    CHECK(std::llabs(sum) <= INT32_MAX);
    return static_cast<std::uint8_t>(std::clamp<std::int64_t>(sum >> 22, 0, 255));
}

Grid filter_rows(const Grid& input, const AxisTaps& taps, std::int32_t width) {
    Grid result{width, input.height, {}};
    for (std::int32_t y = 0; y < input.height; ++y) {
        for (std::int32_t x = 0; x < width; ++x) {
            result.pixels.push_back(filter(taps, x, [&](std::int32_t i) { return input.at(i, y); }));
        }
    }
    return result;
}

Grid filter_columns(const Grid& input, const AxisTaps& taps, std::int32_t height) {
    Grid result{input.width, height, {}};
    for (std::int32_t y = 0; y < height; ++y) {
        for (std::int32_t x = 0; x < input.width; ++x) {
            result.pixels.push_back(filter(taps, y, [&](std::int32_t i) { return input.at(x, i); }));
        }
    }
    return result;
}

Grid expected_plane(const StripImageView& view, int plane, const ResizeJob& job) {
    Grid grid{view.width, view.height, testing::pixels_of(view, plane)};
    const bool is_vertical_first = job.is_vertical_first && job.vertical != nullptr;
    if (is_vertical_first) grid = filter_columns(grid, *job.vertical, job.height);
    if (job.horizontal != nullptr) grid = filter_rows(grid, *job.horizontal, job.width);
    if (!is_vertical_first && job.vertical != nullptr) grid = filter_columns(grid, *job.vertical, job.height);
    return grid;
}

int count_differences(const PlanarImage& result, const Grid (&expected)[3]) {
    int differences = 0;
    for (int plane = 0; plane < 3; ++plane) {
        for (std::int32_t y = 0; y < expected[plane].height; ++y) {
            for (std::int32_t x = 0; x < expected[plane].width; ++x) {
                differences += result.at(plane, x, y) != expected[plane].at(x, y) ? 1 : 0;
            }
        }
    }
    return differences;
}

void check_job(const StripImageView& source, const ResizeJob& job) {
    const Grid expected[3] = {expected_plane(source, 0, job), expected_plane(source, 1, job),
                              expected_plane(source, 2, job)};
    for_each_kernel_table([&](const KernelTable& kernels) {
        std::size_t scratch_size = 0;
        CHECK(kernels.resize_scratch_bytes({source.width, source.height}, job, &scratch_size));
        AlignedBuffer scratch;  // exact, so that a sanitizer detects writes after it
        CHECK(scratch.reserve(scratch_size).is_ok());
        std::memset(scratch.data(), 0xA5, scratch_size);  // values that an earlier image left there
        PlanarImage result(job.width, job.height);
        kernels.resize(source, job, scratch.data(), result.view());
        CHECK_EQUAL(count_differences(result, expected), 0);
    });
}

constexpr ResizeOrder kOrders[] = {ResizeOrder::kHorizontalFirst, ResizeOrder::kPillow13};
constexpr Interpolation kInterpolations[] = {Interpolation::kBox, Interpolation::kBilinear, Interpolation::kHamming,
                                             Interpolation::kBicubic, Interpolation::kLanczos};

void check_resize(const StripImageView& source, ImageSize to, Interpolation interpolation, ResizeOrder order) {
    ResizePlan plan;
    CHECK(plan.prepare({source.width, source.height}, to, interpolation, order).is_ok());
    check_job(source, plan.job());
}

void check_every_resize(const StripImageView& source, ImageSize to) {
    for (const ResizeOrder order : kOrders) {
        for (const Interpolation interpolation : kInterpolations) check_resize(source, to, interpolation, order);
    }
}

}  // namespace

TEST_CASE(resize_kernels_match_their_contract_around_block_sizes) {
    const std::int32_t sides[] = {1, 2, 7, 8, 9, 15, 17, 31, 32, 33, 65};
    std::uint32_t seed = 0;
    for (const std::int32_t from : sides) {
        for (const std::int32_t to : sides) {
            const std::int32_t height = sides[seed % std::size(sides)];
            const std::int32_t to_height = sides[seed / 2 % std::size(sides)];
            ++seed;
            if (from == to && height == to_height) continue;
            const StripImage image(from, height, seed, seed % 2 == 0);
            check_every_resize(image.view(), {to, to_height});
        }
    }
}

// Both orders and single passes; every number of taps up to 24, and with it every way to cut them into groups.
TEST_CASE(resize_kernels_take_every_number_of_taps) {
    for (std::int32_t reduction = 2; reduction <= 12; ++reduction) {
        const StripImage wide(19 * reduction, 9, static_cast<std::uint32_t>(reduction), true);
        check_every_resize(wide.view(), {19, 5});
        check_every_resize(wide.view(), {19, 9});
        const StripImage tall(9, 19 * reduction, static_cast<std::uint32_t>(reduction), true);
        check_every_resize(tall.view(), {5, 19});
        check_every_resize(tall.view(), {9, 18});
    }
}

TEST_CASE(resize_kernels_read_no_column_or_strip_outside_of_the_window) {
    const StripImage image(61, 47, 5);
    for (std::int32_t offset = 0; offset < 10; ++offset) {
        const StripImageView window = image.view().crop({offset, 11 - offset, 50 - offset, 30 + offset / 2});
        const ReadableWindow only(window, {61, 47});
        for (const ResizeOrder order : kOrders) {
            check_resize(window, {20, 9}, Interpolation::kBicubic, order);
            check_resize(window, {77, 13}, Interpolation::kBilinear, order);
            check_resize(window, {window.width, 12}, Interpolation::kBilinear, order);
            check_resize(window, {12, window.height}, Interpolation::kBilinear, order);
        }
    }
}

TEST_CASE(resize_kernels_read_no_column_outside_of_narrow_and_low_windows) {
    const StripImage image(40, 40, 6, true);
    for (std::int32_t width = 1; width <= 9; ++width) {
        for (std::int32_t height = 1; height <= 9; ++height) {
            const StripImageView window = image.view().crop({40 - width - width % 2, 40 - height, width, height});
            const ReadableWindow only(window, {40, 40});
            check_every_resize(window, {11, 10});
            check_every_resize(window, {3, 70});
            check_every_resize(window, {width + 1, height});
            check_every_resize(window, {width, height + 1});
        }
    }
}

TEST_CASE(resize_kernels_take_extreme_ratios) {
    const StripImage wide(5001, 3, 1, true);
    const StripImage tall(3, 5001, 2, true);
    check_every_resize(wide.view(), {1, 3});
    check_every_resize(wide.view(), {2, 70});
    check_every_resize(tall.view(), {3, 1});
    check_every_resize(tall.view(), {70, 2});
}

// The largest weights that AxisTaps allows, of either sign, on pixels of 0 and 255: they overflow first if a kernel
// splits coefficients too tightly. The last output starts after the first strip.
TEST_CASE(resize_kernels_take_the_largest_weights) {
    const StripImage image(24, 24, 3, true);
    constexpr std::int32_t kOne = 1 << kTapPrecisionBits;
    const std::int32_t first[] = {9, 9, 10, 17};
    const std::int32_t count[] = {2, 3, 5, 7};
    const std::int32_t coefficients[4][7] = {
        {kOne + kOne / 2 - 1, -kOne / 2 + 1},
        {-kOne / 4, kOne + kOne / 2 - 129, -kOne / 4 + 129},
        {32768, 8388607 - kOne, -32768, 65535, 127},
        {128, -128, 32767, -32769, kOne - 1, -1, 1},
    };
    const AxisTaps taps = {first, count, coefficients[0], 7};
    for (const bool is_vertical_first : {false, true}) {
        check_job(image.view(), {&taps, &taps, 4, 4, is_vertical_first});
        check_job(image.view(), {&taps, nullptr, 4, 24, is_vertical_first});
        check_job(image.view(), {nullptr, &taps, 24, 4, is_vertical_first});
    }
}

// Pillow 13.0 takes the vertical pass first here and 12.1 does not; both were confirmed with the packages.
TEST_CASE(resize_order_follows_the_rule_of_each_pillow) {
    using Order = ResizeOrder;
    CHECK(is_vertical_first(Order::kPillow13, {100, 300}, {90, 100}));
    CHECK(is_vertical_first(Order::kPillow13, {50, 60}, {60, 59}));
    CHECK(!is_vertical_first(Order::kPillow13, {300, 300}, {200, 100}));  // 200 rows is not more than twice 100 columns
    CHECK(is_vertical_first(Order::kPillow13, {300, 301}, {200, 100}));
    CHECK(!is_vertical_first(Order::kPillow13, {50, 60}, {500, 60}));
    CHECK(!is_vertical_first(Order::kPillow13, {50, 60}, {500, 61}));
    CHECK(!is_vertical_first(Order::kHorizontalFirst, {3, 353}, {344, 323}));
    CHECK(is_vertical_first(Order::kPillow12_2, {3, 353}, {344, 323}));
    CHECK(!is_vertical_first(Order::kPillow12_2, {3, 300}, {344, 200}));
    CHECK(!is_vertical_first(Order::kPillow12_2, {3, 353}, {344, 353}));
    CHECK(!is_vertical_first(Order::kPillow12_2, {100, 300}, {90, 100}));
}

TEST_CASE(resize_plan_has_no_pass_for_a_side_that_stays) {
    ResizePlan plan;
    CHECK(plan.prepare({40, 30}, {40, 10}, Interpolation::kBilinear, ResizeOrder::kPillow13).is_ok());
    CHECK(plan.job().horizontal == nullptr);
    CHECK(plan.job().vertical != nullptr);
    CHECK(plan.prepare({40, 30}, {41, 30}, Interpolation::kBilinear, ResizeOrder::kPillow13).is_ok());
    CHECK(plan.job().horizontal != nullptr);
    CHECK(plan.job().vertical == nullptr);
}

TEST_CASE(resize_of_a_box_has_a_pass_where_the_box_is_not_the_whole_side) {
    ResizePlan plan;
    const ImageSize from = {40, 30};
    const auto prepare = [&](const FloatBox& box, ImageSize to) {
        const Region all = {0, 0, to.width, to.height};
        CHECK(plan.prepare({from, box, to}, all, Interpolation::kBilinear, ResizeOrder::kPillow13).is_ok());
    };
    prepare({0.0F, 0.5F, 40.0F, 30.0F}, from);
    CHECK(plan.job().horizontal == nullptr);
    CHECK(plan.job().vertical != nullptr);
    prepare({0.0F, 0.0F, 39.5F, 30.0F}, from);
    CHECK(plan.job().horizontal != nullptr);
    CHECK(plan.job().vertical == nullptr);
    prepare({10.0F, 0.0F, 20.0F, 15.0F}, {10, 15});
    CHECK(plan.job().horizontal != nullptr);
    CHECK(plan.job().vertical != nullptr);
}

// The outputs of a box equal the outputs of a larger box that begins at the same place, with the same scale.
TEST_CASE(resize_of_a_box_reads_pixels_around_it) {
    const ImageSize from = {40, 1};
    const auto source = [&](const FloatBox& box, std::int32_t width) {
        return resize_source({from, box, {width, 1}}, {0, 0, width, 1}, Interpolation::kBicubic);
    };
    const Region inside = source({10.0F, 0.0F, 20.0F, 1.0F}, 5);  // 2 pixels for each output, support of 4
    CHECK_EQUAL(inside.left, 7);
    CHECK_EQUAL(inside.width, 16);
    CHECK_EQUAL(source({0.0F, 0.0F, 20.0F, 1.0F}, 10).left, 0);
    const Region at_end = source({20.0F, 0.0F, 40.0F, 1.0F}, 10);
    CHECK_EQUAL(at_end.left + at_end.width, 40);
}

TEST_CASE(resize_kernels_take_boxes) {
    std::mt19937 random(4);
    const auto edges = [&](std::int32_t side) {
        std::uniform_real_distribution<float> edge(0.0F, static_cast<float>(side));
        const float a = edge(random);
        const float b = edge(random);
        return std::pair<float, float>(std::min(a, b), std::max(a, b));
    };
    const StripImage image(61, 47, 5, true);
    for (int i = 0; i < 60; ++i) {
        const auto [left, right] = edges(61);
        const auto [top, bottom] = edges(47);
        if (!(left < right) || !(top < bottom)) continue;
        const ImageSize to = {static_cast<std::int32_t>(random() % 80 + 1),
                              static_cast<std::int32_t>(random() % 80 + 1)};
        const ResizeShape shape({61, 47}, {left, top, right, bottom}, to);
        const Region all = {0, 0, to.width, to.height};
        for (const Interpolation interpolation : kInterpolations) {
            ResizePlan plan;
            CHECK(plan.prepare(shape, all, interpolation, kOrders[i % 2]).is_ok());
            check_job(image.view().crop(resize_source(shape, all, interpolation)), plan.job());
        }
    }
}

// The largest sum of the weights of one output, without their signs. Checks that all pixels lie in [begin, end).
std::int64_t worst_sum(const AxisTaps& taps, std::int32_t num_outputs, std::int32_t begin, std::int32_t end) {
    std::int64_t worst = 0;
    for (std::int32_t i = 0; i < num_outputs; ++i) {
        const std::int32_t* const weights = taps.coefficients + static_cast<std::int64_t>(i) * taps.stride;
        std::int64_t sum = 0;
        for (std::int32_t t = 0; t < taps.count[i]; ++t) sum += std::abs(weights[t]);
        worst = std::max(worst, sum);
        CHECK(taps.count[i] > 0 && taps.count[i] <= taps.stride);
        CHECK(begin + taps.first[i] >= 0 && begin + taps.first[i] + taps.count[i] <= end);
    }
    return worst;
}

// The bound that lets kernels add in int32: the worst row of signs times 255, for every size of a small grid and for
// the largest reductions and enlargements.
TEST_CASE(resize_weights_keep_sums_inside_int32) {
    ResizePlan plan;
    std::int64_t worst = 0;
    std::vector<ImageSize> pairs;
    for (std::int32_t from = 1; from <= 40; ++from) {
        for (std::int32_t to = 1; to <= 40; ++to) pairs.push_back({from, to});
    }
    for (const std::int32_t side : {1, 2, 3, 1000, 65534, 65535, 1 << 20}) {
        pairs.push_back({65535, side});
        pairs.push_back({side, 65535});
    }
    pairs.push_back({1 << 20, 1});
    pairs.push_back({1, 1 << 20});
    for (const auto& [from, to] : pairs) {
        if (from == to) continue;
        for (const Interpolation interpolation : kInterpolations) {
            CHECK(plan.prepare({from, 1}, {to, 1}, interpolation, ResizeOrder::kHorizontalFirst).is_ok());
            worst = std::max(worst, worst_sum(*plan.job().horizontal, to, 0, from));
        }
    }
    CHECK(worst * 255 + (1 << 21) <= INT32_MAX);
    CHECK(worst > 1 << 22);
}

// The same for boxes that begin and end anywhere: their outputs may be closer to the ends of the image.
TEST_CASE(resize_weights_of_boxes_keep_sums_inside_int32) {
    ResizePlan plan;
    std::int64_t worst = 0;
    std::mt19937 random(7);
    for (int i = 0; i < 20000; ++i) {
        const auto from = static_cast<std::int32_t>(random() % 12 + 1);
        const auto to = static_cast<std::int32_t>(random() % 9 + 1);
        std::uniform_real_distribution<float> edge(0.0F, static_cast<float>(from));
        const float a = i % 3 == 0 ? 0.0F : edge(random);
        const float b = i % 7 == 0 ? static_cast<float>(from) : i % 5 == 0 ? std::nextafter(a, 99.0F) : edge(random);
        if (a == b || (a == 0.0F && b == static_cast<float>(from)) || std::max(a, b) > static_cast<float>(from))
            continue;
        const ResizeShape shape({from, 1}, {std::min(a, b), 0.0F, std::max(a, b), 1.0F}, {to, 1});
        const Interpolation interpolation = kInterpolations[random() % std::size(kInterpolations)];
        CHECK(plan.prepare(shape, {0, 0, to, 1}, interpolation, ResizeOrder::kPillow13).is_ok());
        const std::int32_t begin = resize_source(shape, {0, 0, to, 1}, interpolation).left;
        worst = std::max(worst, worst_sum(*plan.job().horizontal, to, begin, from));
    }
    CHECK(worst * 255 + (1 << 21) <= INT32_MAX);
    CHECK(worst > 1 << 22);
}

TEST_CASE(box_resize_checks_its_box) {
    BoxResize step = testing::sized<BoxResize>(5, 6);
    testing::check_mentions(step.check(), "box must be 0 <= left < right");
    step.box = {1.0F, 2.0F, 3.0F, 2.0F};
    testing::check_mentions(step.check(), "box must be 0 <= top < bottom");
    step.box = {1.0F, -0.5F, 3.0F, 2.0F};
    CHECK(!step.check().empty());
    step.box = {1.0F, 0.5F, 3.0F, 2.0F};
    CHECK(step.check().empty());
    step.interpolation = Interpolation::kNearest;
    testing::check_mentions(step.check(), "interpolation must be a filter, got nearest");
    step.interpolation = Interpolation::kBox;
    const auto plan = testing::make_plan({testing::placed(step)});
    CounterDraws draws(0, 0, 0);
    ResolvedTransform resolved;
    CHECK(plan->resolve(&draws, {3, 2}, &resolved).is_ok());
    CHECK_EQUAL(resolved.output_size.width, 5);
    CHECK(plan->resolve(&draws, {2, 2}, &resolved).code == StatusCode::kInvalidGeometry);
    CHECK(plan->resolve(&draws, {3, 1}, &resolved).code == StatusCode::kInvalidGeometry);
}

TEST_CASE(resize_plan_keeps_its_memory) {
    ResizePlan plan;
    CHECK(plan.prepare({500, 375}, {224, 224}, Interpolation::kBicubic, ResizeOrder::kPillow13).is_ok());
    const std::size_t held = plan.scratch_bytes();
    for (std::int32_t side = 1; side < 375; side += 17) {
        CHECK(plan.prepare({side, side + 1}, {224, 224}, Interpolation::kBilinear, ResizeOrder::kPillow13).is_ok());
    }
    CHECK_EQUAL(plan.scratch_bytes(), held);
}

}  // namespace fastload

#include <limits>
#include <optional>

#include "check.h"
#include "image/plan/placement.h"
#include "image/plan/python_round.h"
#include "image/steps/center_crop.h"
#include "image/steps/random_resized_crop.h"
#include "image/steps/resize_shorter_side.h"

namespace fastload {
namespace {

void check_region(const Region& actual, const Region& expected) {
    CHECK_EQUAL(actual.left, expected.left);
    CHECK_EQUAL(actual.top, expected.top);
    CHECK_EQUAL(actual.width, expected.width);
    CHECK_EQUAL(actual.height, expected.height);
}

void check_shorter_side(ImageSize image, std::int32_t size, std::optional<std::int32_t> max_size, std::int64_t width,
                        std::int64_t height) {
    ResizeShorterSide step;
    step.size = size;
    step.max_size = max_size;
    const std::optional<LongSize> actual = step.size_after(image);
    CHECK(actual && actual->width == width && actual->height == height);
}

}  // namespace

TEST_CASE(round_half_even_is_python_round) {
    CHECK_EQUAL(round_half_even(0.5), 0.0);
    CHECK_EQUAL(round_half_even(1.5), 2.0);
    CHECK_EQUAL(round_half_even(2.5), 2.0);
    CHECK_EQUAL(round_half_even(2.4999), 2.0);
    CHECK_EQUAL(round_half_even(2.5001), 3.0);
    CHECK_EQUAL(round_half_even(-0.5), 0.0);
    CHECK_EQUAL(round_half_even(-1.5), -2.0);
}

// Expected values from torchvision 0.28's _compute_resized_output_size.
TEST_CASE(resized_shorter_side_truncates_the_longer_one) {
    check_shorter_side({500, 375}, 256, std::nullopt, 341, 256);
    check_shorter_side({375, 500}, 256, std::nullopt, 256, 341);
    check_shorter_side({7, 7}, 3, std::nullopt, 3, 3);
    check_shorter_side({500, 375}, 256, 300, 300, 225);
    check_shorter_side({500, 375}, 256, 341, 341, 256);
    check_shorter_side({1000, 10}, 5, 8, 8, 0);  // Pillow refuses a side of 0, and so does the plan
    check_shorter_side({65535, 1}, 65535, std::nullopt, std::int64_t{65535} * 65535, 65535);
}

TEST_CASE(center_crop_rounds_offsets_half_to_even) {
    check_region(center_crop({7, 8}, {4, 3}).inside, {2, 2, 4, 3});  // 1.5 -> 2, 2.5 -> 2
    check_region(center_crop({9, 9}, {4, 9}).inside, {2, 0, 4, 9});  // 2.5 -> 2
    check_region(center_crop({5, 5}, {4, 4}).inside, {0, 0, 4, 4});  // 0.5 -> 0
}

TEST_CASE(center_crop_pads_small_images_with_the_odd_pixel_at_the_end) {
    const PaddedCrop crop = center_crop({5, 20}, {8, 10});
    check_region(crop.inside, {0, 5, 5, 10});
    CHECK_EQUAL(crop.pad_left, 1);
    CHECK_EQUAL(crop.pad_right, 2);
    CHECK_EQUAL(crop.pad_top, 0);
    CHECK_EQUAL(crop.pad_bottom, 0);
    CHECK_EQUAL(crop.width(), 8);
    CHECK_EQUAL(crop.height(), 10);
}

TEST_CASE(random_box_lies_inside_and_follows_its_seed) {
    RandomBoxRule rule;
    int full_tries = 0;
    for (std::uint64_t sample = 0; sample < 2000; ++sample) {
        CounterDraws draws(1, 0, sample);
        CounterDraws again(1, 0, sample);
        const Region box = choose_random_box({500, 375}, rule, &draws);
        check_region(choose_random_box({500, 375}, rule, &again), box);
        CHECK(box.lies_inside(500, 375));
        const double share = static_cast<double>(box.width) * box.height / (500.0 * 375.0);
        const double ratio = static_cast<double>(box.width) / box.height;
        CHECK(share > 0.079 && share <= 1.0);
        CHECK(ratio > 0.74 && ratio < 1.35);
        full_tries += box.left > 0 ? 1 : 0;
    }
    CHECK(full_tries > 1900);
}

TEST_CASE(random_box_falls_back_to_the_central_box) {
    RandomBoxRule rule;
    rule.scale[0] = rule.scale[1] = 4.0;  // larger than any image: no attempt can succeed
    CounterDraws draws(1, 0, 0);
    check_region(choose_random_box({100, 400}, rule, &draws), {0, 133, 100, 133});  // 100 / (3/4) = 133.3
    check_region(choose_random_box({400, 100}, rule, &draws), {133, 0, 133, 100});
    check_region(choose_random_box({100, 110}, rule, &draws), {0, 0, 100, 110});
}

TEST_CASE(random_box_survives_absurd_ratios) {
    RandomBoxRule rule;
    rule.ratio[0] = 1e30;
    rule.ratio[1] = 1e38;
    rule.log_ratio = {69.0776F, 87.4982F, nullptr};
    CounterDraws draws(1, 0, 0);
    CHECK_EQUAL(choose_random_box({100, 100}, rule, &draws).height, 0);
    rule.ratio[0] = rule.ratio[1] = 1e-300;
    rule.log_ratio.from = rule.log_ratio.to = -std::numeric_limits<float>::infinity();
    CHECK_EQUAL(choose_random_box({100, 100}, rule, &draws).width, 0);
}

TEST_CASE(placement_follows_crops_and_flips) {
    Placement placement = Placement::of_whole({500, 375});
    CHECK(placement.is_plain());
    placement.crop({{138, 76, 224, 224}});
    placement.flip();
    check_region(placement.source, {138, 76, 224, 224});
    CHECK(placement.is_mirrored);
    placement.crop({{0, 0, 100, 224}});
    check_region(placement.source, {262, 76, 100, 224});
    placement.flip();
    CHECK(placement.is_plain());
}

TEST_CASE(placement_pads_and_crops_the_padding_away) {
    Placement placement = Placement::of_whole({10, 10});
    placement.crop(center_crop({10, 10}, {16, 12}));
    CHECK_EQUAL(placement.left, 3);
    CHECK_EQUAL(placement.top, 1);
    CHECK(!placement.is_plain());
    placement.crop({{1, 2, 4, 5}});  // columns 1..4: two of padding, two of pixels
    check_region(placement.source, {0, 1, 2, 5});
    CHECK_EQUAL(placement.left, 2);
    CHECK_EQUAL(placement.top, 0);
    placement.flip();
    CHECK_EQUAL(placement.left, 0);
    placement.crop({{2, 0, 2, 5}});  // padding only
    CHECK_EQUAL(placement.source.width, 0);
}

}  // namespace fastload

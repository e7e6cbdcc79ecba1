#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "image/plan/transform_executor.h"
#include "image/steps/affine.h"
#include "image/steps/apply_op.h"
#include "image/steps/auto_augment.h"
#include "image/steps/center_crop.h"
#include "image/steps/color_jitter.h"
#include "image/steps/hue.h"
#include "image/steps/pad.h"
#include "image/steps/point_ops.h"
#include "image/steps/random_apply.h"
#include "image/steps/random_crop.h"
#include "image/steps/random_erasing.h"
#include "image/steps/resize.h"
#include "image/steps/saturation.h"
#include "image/steps/sharpness.h"
#include "image/steps/transpositions.h"
#include "image/steps/trivial_augment_wide.h"
#include "kernels/dispatch.h"
#include "plan_steps.h"
#include "test_images.h"

namespace fastload {
namespace {

using testing::check_mentions;
using testing::flip;
using testing::make_plan;
using testing::placed;
using testing::problem_of;
using testing::sized;
using testing::StripImage;
using testing::word_of;
using Family = TorchvisionFamily;

// Answers in the order given, and remembers what was asked.
class ScriptedDraws final : public DrawSource {
  public:
    explicit ScriptedDraws(std::deque<std::uint32_t> answers)
        : DrawSource(UniformRule{}), answers_(std::move(answers)) {}

    void begin_step(std::uint32_t position) noexcept override { asked_ += "@" + std::to_string(position) + " "; }
    std::uint32_t below(std::uint32_t n) noexcept override {
        asked_ += "below " + std::to_string(n) + " ";
        return next() % n;
    }
    const std::string& asked() const { return asked_; }
    bool is_used_up() const { return answers_.empty(); }

  private:
    std::uint32_t next_bits24() noexcept override {
        asked_ += "uniform ";
        return next();
    }
    std::uint32_t next() noexcept {
        CHECK(!answers_.empty());
        const std::uint32_t answer = answers_.empty() ? 0 : answers_.front();
        if (!answers_.empty()) answers_.pop_front();
        return answer;
    }

    std::deque<std::uint32_t> answers_;
    std::string asked_;
};

constexpr std::uint32_t kHalf = 1U << 23;  // 0.5 in 24 bits

void check_asked(const ScriptedDraws& draws, const std::string& expected) {
    CHECK(draws.is_used_up());
    if (draws.asked() == expected) return;
    testing::report_failure(__FILE__, __LINE__, "asked \"" + draws.asked() + "\", expected \"" + expected + "\"");
}

// The operations of `step`, which holds no operation itself, for an image of `size`.
ResolvedTransform resolve(const PlacedStep& step, DrawSource* draws, ImageSize size = {8, 8}) {
    ResolvedTransform resolved;
    CHECK(make_plan({step})->resolve(draws, size, &resolved).is_ok());
    return resolved;
}

template <typename First, typename... Others>
std::shared_ptr<PolicyChoice> choice_of(const First& first, const Others&... others) {
    PolicyChoice choice;
    choice.ops = {std::make_shared<First>(first), std::make_shared<Others>(others)...};
    choice.is_signed = choice.ops.size() > 1;
    choice.num_bins = static_cast<std::int32_t>(choice.is_signed ? choice.ops.size() / 2 : 1);
    choice.probability = 0.5;
    return std::make_shared<PolicyChoice>(choice);
}

AutoAugment auto_augment(Family family) {
    AutoAugment step;
    step.family = family;
    step.policies.push_back({choice_of(Invert(), Equalize()), choice_of(Contrast(), Hue())});
    return step;
}

template <typename Op>
ApplyOp always(const Op& op) {
    ApplyOp step;
    step.op = std::make_shared<Op>(op);
    return step;
}

PlacedStep crop_to(std::int32_t width, std::int32_t height) { return placed(sized<CenterCrop>(width, height)); }

}  // namespace

TEST_CASE(auto_augment_v1_draws_everything_at_once_and_0_is_negative) {
    ScriptedDraws draws({0, kHalf, kHalf + 1, 0, 1});  // the second one is left out: its draw is above 0.5
    const AutoAugment step = auto_augment(Family::kV1);
    const auto plan = make_plan({placed(step)});
    ResolvedTransform resolved;
    CHECK(plan->resolve(&draws, {8, 8}, &resolved).is_ok());
    check_asked(draws, "@0 below 1 uniform uniform below 2 below 2 ");
    CHECK_EQUAL(resolved.operations.size(), 1U);
    CHECK(word_of(resolved, 0) == "equalize");
}

TEST_CASE(auto_augment_v2_draws_a_sign_only_for_applied_operations) {
    ScriptedDraws draws({0, kHalf + 1, kHalf, kHalf});
    const auto plan = make_plan({placed(auto_augment(Family::kV2))});
    ResolvedTransform resolved;
    CHECK(plan->resolve(&draws, {8, 8}, &resolved).is_ok());
    check_asked(draws, "@0 below 1 uniform uniform uniform ");
    CHECK_EQUAL(resolved.operations.size(), 1U);
    CHECK(word_of(resolved, 0) == "hue");  // 0.5 is negative
}

TEST_CASE(trivial_augment_draws_operation_then_bin_then_sign) {
    TrivialAugmentWide step;
    step.choices = {choice_of(Identity()), choice_of(Invert(), Equalize(), Contrast(), Hue())};
    const auto plan = make_plan({placed(step)});
    ScriptedDraws draws({1, 1, 0});
    ResolvedTransform resolved;
    CHECK(plan->resolve(&draws, {8, 8}, &resolved).is_ok());
    CHECK(word_of(resolved, 0) == "contrast");
    check_asked(draws, "@0 below 2 below 2 below 2 ");
    ScriptedDraws none({0});
    CHECK(plan->resolve(&none, {8, 8}, &resolved).is_ok());
    CHECK(resolved.operations.is_empty());
    check_asked(none, "@0 below 2 ");
}

TEST_CASE(color_jitter_draws_the_order_and_then_the_factors_it_needs) {
    ColorJitter jitter;
    jitter.contrast = {1.0, 2.0};
    jitter.hue = {-0.5, 0.5};
    ScriptedDraws draws({3, 0, 0, kHalf, 0});
    const ResolvedTransform resolved = resolve(placed(jitter), &draws);
    CHECK_EQUAL(resolved.operations.size(), 2U);
    // The shuffle brings the hue to the front.
    CHECK(word_of(resolved, 0) == "hue");
    CHECK_EQUAL(std::get<double>(resolved.operations[0].report()[1]), -0.5);
    CHECK(word_of(resolved, 1) == "contrast");
    CHECK_EQUAL(std::get<double>(resolved.operations[1].report()[1]), 1.5);
    check_asked(draws, "@0 below 4 below 3 below 2 uniform uniform ");
}

TEST_CASE(random_crop_v1_draws_both_sides_and_v2_those_with_room) {
    const auto row_of = [](const ResolvedTransform& resolved) {
        return std::get<std::int64_t>(resolved.operations[0].report()[2]);
    };
    RandomCrop crop = sized<RandomCrop>(10, 15);
    crop.family = Family::kV1;
    ScriptedDraws v1({3, 0});
    CHECK_EQUAL(row_of(resolve(placed(crop), &v1, {10, 20})), 3);
    check_asked(v1, "@0 below 6 below 1 ");
    crop.family = Family::kV2;
    ScriptedDraws v2({3});
    CHECK_EQUAL(row_of(resolve(placed(crop), &v2, {10, 20})), 3);
    check_asked(v2, "@0 below 6 ");
    for (const Family family : {Family::kV1, Family::kV2}) {
        RandomCrop whole = sized<RandomCrop>(10, 20);
        whole.family = family;
        ScriptedDraws none({});
        CHECK(resolve(placed(whole), &none, {10, 20}).operations.is_empty());
        check_asked(none, "@0 ");
    }
}

TEST_CASE(random_crop_pads_the_whole_difference_on_both_sides) {
    RandomCrop crop = sized<RandomCrop>(32, 32);
    crop.pad_if_needed = true;
    crop.fill = {1, 2, 3};
    const Padding padding = crop.padding_of({10, 40});
    CHECK_EQUAL(padding.left, 22);
    CHECK_EQUAL(padding.right, 22);
    CHECK_EQUAL(padding.top, 0);
    CHECK_EQUAL(padding.bottom, 0);
    CHECK(padding.fill == crop.fill);
    crop.pad_if_needed = false;
    CHECK(crop.padding_of({10, 40}).is_empty());
}

TEST_CASE(random_apply_takes_its_probability_itself_in_v1_only) {
    for (const Family family : {Family::kV1, Family::kV2}) {
        RandomApply apply;
        apply.probability = 0.5;
        apply.family = family;
        apply.steps.push_back(placed(always(Invert()), 2));
        const auto plan = make_plan({placed(apply, 1)});
        ScriptedDraws draws({kHalf});
        ResolvedTransform resolved;
        CHECK(plan->resolve(&draws, {4, 4}, &resolved).is_ok());
        CHECK_EQUAL(resolved.operations.size(), family == Family::kV1 ? 1U : 0U);
        check_asked(draws, family == Family::kV1 ? "@1 uniform @2 " : "@1 uniform ");
        CHECK(plan->is_random());
    }
}

TEST_CASE(erasing_overwrites_its_box_and_nothing_else) {
    const std::vector<std::uint8_t> value = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12,
                                             13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24};
    for (const int element_size : {1, 2, 4, 8}) {
        for (const bool is_channels_last : {false, true}) {
            const auto bytes = static_cast<std::size_t>(element_size);
            const OutputLayout layout = {element_size, is_channels_last, {}};
            std::vector<std::uint8_t> sample(5 * 7 * 3 * bytes, 0);
            erase_elements(layout, {5, 7}, {2, 1, 3, 4}, {value.data(), value.size()}, sample.data());
            int differences = 0;
            for (std::size_t i = 0; i < sample.size() / bytes; ++i) {
                const std::size_t channel = is_channels_last ? i % 3 : i / 35;
                const std::size_t pixel = is_channels_last ? i / 3 : i % 35;
                const bool is_erased = pixel % 5 >= 2 && pixel / 5 >= 1 && pixel / 5 < 5;
                const std::vector<std::uint8_t> zeros(bytes);
                const std::uint8_t* expected = is_erased ? value.data() + channel * bytes : zeros.data();
                differences += std::memcmp(sample.data() + i * bytes, expected, bytes) != 0;
            }
            CHECK_EQUAL(differences, 0);
        }
    }
}

TEST_CASE(erasing_draws_no_place_where_no_attempt_succeeds) {
    RandomBoxRule rule;
    rule.scale[0] = rule.scale[1] = 1.0;
    rule.log_ratio = {0.0F, 0.0F, nullptr};
    ScriptedDraws draws(std::deque<std::uint32_t>(20, 0));
    CHECK(!choose_erased_box({10, 10}, rule, &draws));
    CHECK(draws.is_used_up());
    rule.scale[0] = rule.scale[1] = 0.0;
    ScriptedDraws empty({0, 0, 10, 4});
    const auto box = choose_erased_box({10, 10}, rule, &empty);
    CHECK(box && box->width == 0 && box->height == 0 && box->top == 10 && box->left == 4);
}

TEST_CASE(pixels_before_an_operation_are_all_asked_for) {
    ScriptedDraws draws({});
    ResolvedTransform resolved;
    const auto plan = make_plan({crop_to(40, 30), placed(always(Contrast())), crop_to(10, 10)});
    CHECK(plan->resolve(&draws, {100, 100}, &resolved).is_ok());
    CHECK_EQUAL(resolved.source_region.width, 40);
    CHECK_EQUAL(resolved.source_region.height, 30);
    CHECK_EQUAL(resolved.output_size.width, 10);
    Pad pad;
    pad.left = pad.top = pad.right = pad.bottom = 3;
    CHECK(make_plan({placed(pad), crop_to(10, 10)})->resolve(&draws, {100, 100}, &resolved).is_ok());
    CHECK_EQUAL(resolved.source_region.width, 10);
    pad.fill = {0, 0, 1};
    CHECK(make_plan({placed(pad), crop_to(10, 10)})->resolve(&draws, {100, 100}, &resolved).is_ok());
    CHECK_EQUAL(resolved.source_region.width, 100);
}

TEST_CASE(a_plan_of_variable_size_has_none) {
    const auto plan = make_plan({});
    CHECK(!plan->has_fixed_size());
    CHECK_EQUAL(plan->sample_bytes(), 0U);
    CHECK(!plan->is_random());
    const StripImage image(19, 11, 3);
    ScriptedDraws draws({});
    ResolvedTransform resolved;
    CHECK(plan->resolve(&draws, {19, 11}, &resolved).is_ok());
    std::size_t bytes = 0;
    CHECK(plan->count_bytes(resolved.output_size, &bytes));
    std::vector<std::uint8_t> sample(bytes);
    TransformExecutor executor(*select_kernel_table());
    CHECK(executor.run(*plan, resolved, image.view(), sample.data()).is_ok());
    int differences = 0;
    for (std::int32_t y = 0; y < 11; ++y) {
        for (std::int32_t x = 0; x < 19; ++x) {
            differences += sample[static_cast<std::size_t>(y * 19 + x)] != image.view().at(0, x, y);
        }
    }
    CHECK_EQUAL(differences, 0);
}

// Every kind of step in one executor, in changing order and size: memory is reused in every combination.
TEST_CASE(executor_gives_the_same_whatever_it_ran_before) {
    Affine affine;
    affine.matrix = {1.0, 0.2, 0.0, -0.1, 1.0, 3.0};
    Pad pad;
    pad.left = 3;
    pad.top = 1;
    pad.bottom = 2;
    pad.mode = PaddingMode::kReflect;
    RandomVerticalFlip vertical_flip;
    vertical_flip.probability = 1.0;
    Resize nearest = sized<Resize>(40, 23);
    nearest.interpolation = Interpolation::kNearest;
    Resize lanczos = sized<Resize>(49, 23);
    lanczos.interpolation = Interpolation::kLanczos;
    const Steps all = {placed(always(Invert())),
                       placed(always(Sharpness(0.4))),
                       placed(always(Rotate90())),
                       placed(always(Hue(0.4))),
                       placed(always(affine)),
                       placed(pad),
                       placed(vertical_flip),
                       flip(1.0),
                       crop_to(31, 43),
                       placed(nearest),
                       placed(lanczos)};
    TransformExecutor shared(*select_kernel_table());
    std::mt19937 random(2);
    for (int i = 0; i < 150; ++i) {
        Steps steps;
        for (int k = 0; k < 6; ++k) steps.push_back(all[random() % all.size()]);
        const auto width = static_cast<std::int32_t>(1 + random() % 60);
        const auto height = static_cast<std::int32_t>(1 + random() % 60);
        const StripImage image(width, height, static_cast<std::uint32_t>(i));
        const auto plan = make_plan(steps);
        CounterDraws draws(0, 0, 0);
        ResolvedTransform resolved;
        CHECK(plan->resolve(&draws, {width, height}, &resolved).is_ok());
        std::size_t bytes = 0;
        CHECK(plan->count_bytes(resolved.output_size, &bytes));
        std::vector<std::uint8_t> first(bytes);
        std::vector<std::uint8_t> second(bytes, 1);
        TransformExecutor fresh(*select_kernel_table());
        const StripImageView pixels = image.view().crop(resolved.source_region);
        CHECK(shared.run(*plan, resolved, pixels, first.data()).is_ok());
        CHECK(fresh.run(*plan, resolved, pixels, second.data()).is_ok());
        CHECK(first == second);
    }
}

TEST_CASE(random_steps_refuse_bad_arguments_with_a_sentence) {
    Posterize posterize;
    posterize.bits = 0;
    CHECK(posterize.check() == "bits must be in 1..8, got 0");
    CHECK(Hue(-0.75).check() == "factor must be in [-0.5, 0.5], got -0.75");
    RandomApply apply;
    apply.steps = {crop_to(5, 5), placed(always(Hue(-0.75)))};
    check_mentions(problem_of({crop_to(5, 5), placed(apply)}), "steps[1]: steps[1]: factor must be");
    Pad pad;
    pad.top = -1;
    CHECK(pad.check() == "top must be in 0..65535, got -1");
    CHECK(TrivialAugmentWide().check() == "choices must not be empty");
    AutoAugment policy = auto_augment(Family::kV1);
    PolicyChoice half = *policy.policies[0][1];
    half.ops.pop_back();
    policy.policies[0][1] = std::make_shared<PolicyChoice>(half);
    check_mentions(policy.check(), "policies[0][1]: ops must be one operation for each bin and sign, 2, got 1");
    RandomErasing erase;
    erase.value.resize(3);
    check_mentions(problem_of({placed(erase), crop_to(5, 5)}), "steps[1] comes after a step on finished elements");
    erase.value.pop_back();
    check_mentions(problem_of({placed(erase)}), "steps[0]: value must be 3 * element_size = 3 bytes, got 2");
}

}  // namespace fastload

#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "image/plan/transform_executor.h"
#include "image/plan/transform_plan.h"
#include "image/steps/augment_policy.h"
#include "image/steps/color_jitter.h"
#include "image/steps/random_crop.h"
#include "image/steps/random_erasing.h"
#include "kernels/dispatch.h"
#include "test_images.h"

namespace fastload {
namespace {

using testing::StripImage;
using Version = TorchvisionVersion;

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

PixelOp op_of(PixelOpKind kind) {
    PixelOp op;
    op.kind = kind;
    return op;
}

PolicyChoice choice_of(PixelOpKind positive, PixelOpKind negative, double probability = 1.0) {
    return {probability, true, 1, {op_of(positive), op_of(negative)}};
}

AugmentPolicy sub_policy(Version version) {
    AugmentPolicy policy;
    policy.rule = PolicyRule::kAutoAugment;
    policy.draws = version;
    policy.subpolicies.push_back({choice_of(PixelOpKind::kInvert, PixelOpKind::kEqualize, 0.5),
                                  choice_of(PixelOpKind::kContrast, PixelOpKind::kHue, 0.5)});
    return policy;
}

TransformStep step_of(TransformKind kind, std::uint32_t position = 0) {
    TransformStep step;
    step.kind = kind;
    step.position = position;
    return step;
}

TransformStep crop_to(std::int32_t width, std::int32_t height) {
    TransformStep step = step_of(TransformKind::kCenterCrop);
    step.width = width;
    step.height = height;
    return step;
}

std::shared_ptr<TransformPlan> make_plan(std::vector<TransformStep> steps, OutputLayout layout = {}) {
    std::string problem;
    auto plan = TransformPlan::create(std::move(steps), std::move(layout), {ResizeOrder::kPillow13, true}, &problem);
    if (plan == nullptr) testing::report_failure(__FILE__, __LINE__, problem);
    return plan;
}

std::string problem_of(std::vector<TransformStep> steps, OutputLayout layout = {}) {
    std::string problem;
    CHECK(TransformPlan::create(std::move(steps), std::move(layout), {ResizeOrder::kPillow13, true}, &problem) ==
          nullptr);
    return problem;
}

void check_mentions(const std::string& text, const std::string& part) {
    if (text.find(part) == std::string::npos) {
        testing::report_failure(__FILE__, __LINE__, "\"" + text + "\" does not mention \"" + part + "\"");
    }
}

}  // namespace

TEST_CASE(auto_augment_v1_draws_everything_at_once_and_0_is_negative) {
    const AugmentPolicy policy = sub_policy(Version::kV1);
    ScriptedDraws draws({0, kHalf, kHalf + 1, 0, 1});  // the second one is left out: its draw is above 0.5
    const PolicyOps chosen = draw_policy(policy, &draws);
    check_asked(draws, "below 1 uniform uniform below 2 below 2 ");
    CHECK_EQUAL(chosen.count, 1U);
    CHECK(chosen.ops[0]->kind == PixelOpKind::kEqualize);
}

TEST_CASE(auto_augment_v2_draws_a_sign_only_for_what_is_applied) {
    const AugmentPolicy policy = sub_policy(Version::kV2);
    ScriptedDraws draws({0, kHalf + 1, kHalf, kHalf});
    const PolicyOps chosen = draw_policy(policy, &draws);
    check_asked(draws, "below 1 uniform uniform uniform ");
    CHECK_EQUAL(chosen.count, 1U);
    CHECK(chosen.ops[0]->kind == PixelOpKind::kHue);  // 0.5 is negative
}

TEST_CASE(trivial_augment_draws_operation_then_bin_then_sign) {
    AugmentPolicy policy;
    policy.rule = PolicyRule::kTrivialAugment;
    policy.choices = {{1.0, false, 1, {op_of(PixelOpKind::kIdentity)}},
                      {1.0,
                       true,
                       2,
                       {op_of(PixelOpKind::kInvert), op_of(PixelOpKind::kEqualize), op_of(PixelOpKind::kContrast),
                        op_of(PixelOpKind::kHue)}}};
    ScriptedDraws draws({1, 1, 0});
    CHECK(draw_policy(policy, &draws).ops[0]->kind == PixelOpKind::kContrast);
    check_asked(draws, "below 2 below 2 below 2 ");
    ScriptedDraws none({0});
    CHECK(draw_policy(policy, &none).ops[0]->kind == PixelOpKind::kIdentity);
    check_asked(none, "below 2 ");
}

TEST_CASE(color_jitter_draws_the_order_and_then_the_factors_it_needs) {
    ColorJitter jitter;
    jitter.ranges[1] = FactorRange{1.0, 2.0};
    jitter.ranges[3] = FactorRange{-0.5, 0.5};
    std::deque<std::uint32_t> answers = {3, 0, 0, kHalf, 0};
    ScriptedDraws draws(answers);
    const JitterOps chosen = draw_color_jitter(jitter, &draws);
    CHECK_EQUAL(chosen.count, 2U);
    CHECK(chosen.ops[0].kind == PixelOpKind::kHue);  // the shuffle brings 3 to the front
    CHECK_EQUAL(chosen.ops[0].factor, -0.5);
    CHECK(chosen.ops[1].kind == PixelOpKind::kContrast);
    CHECK_EQUAL(chosen.ops[1].factor, 1.5);
    check_asked(draws, "below 4 below 3 below 2 uniform uniform ");
}

TEST_CASE(random_crop_v1_draws_both_sides_and_v2_those_with_room) {
    ScriptedDraws v1({3, 0});
    const Region box = choose_random_crop({10, 20}, {10, 15}, Version::kV1, &v1);
    check_asked(v1, "below 6 below 1 ");
    CHECK_EQUAL(box.top, 3);
    ScriptedDraws v2({3});
    CHECK_EQUAL(choose_random_crop({10, 20}, {10, 15}, Version::kV2, &v2).top, 3);
    check_asked(v2, "below 6 ");
    for (const Version version : {Version::kV1, Version::kV2}) {
        ScriptedDraws none({});
        choose_random_crop({10, 20}, {10, 20}, version, &none);
        check_asked(none, "");
    }
}

TEST_CASE(random_crop_pads_the_whole_difference_on_both_sides) {
    RandomCropRule rule;
    rule.is_padded_if_needed = true;
    rule.filling.fill = {1, 2, 3};
    const Padding padding = padding_to_crop({10, 40}, {32, 32}, rule);
    CHECK_EQUAL(padding.left, 22);
    CHECK_EQUAL(padding.right, 22);
    CHECK_EQUAL(padding.top, 0);
    CHECK_EQUAL(padding.bottom, 0);
    CHECK(padding.fill == rule.filling.fill);
    rule.is_padded_if_needed = false;
    CHECK(padding_to_crop({10, 40}, {32, 32}, rule).is_empty());
}

TEST_CASE(random_apply_takes_its_probability_itself_in_v1_only) {
    for (const Version version : {Version::kV1, Version::kV2}) {
        TransformStep apply = step_of(TransformKind::kRandomApply, 1);
        apply.probability = 0.5;
        apply.draws = version;
        apply.steps.push_back(step_of(TransformKind::kPixelOp, 2));
        apply.steps[0].is_certain = true;
        apply.steps[0].op.kind = PixelOpKind::kInvert;
        const auto plan = make_plan({apply});
        ScriptedDraws draws({kHalf});
        ResolvedTransform resolved;
        CHECK(plan->resolve(&draws, {4, 4}, &resolved).is_ok());
        CHECK_EQUAL(resolved.steps().size(), version == Version::kV1 ? 1U : 0U);
        check_asked(draws, version == Version::kV1 ? "@1 uniform @2 " : "@1 uniform ");
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
    TransformStep op = step_of(TransformKind::kPixelOp);
    op.is_certain = true;
    op.op.kind = PixelOpKind::kContrast;
    ScriptedDraws draws({});
    ResolvedTransform resolved;
    CHECK(make_plan({crop_to(40, 30), op, crop_to(10, 10)})->resolve(&draws, {100, 100}, &resolved).is_ok());
    CHECK_EQUAL(resolved.source_region.width, 40);
    CHECK_EQUAL(resolved.source_region.height, 30);
    CHECK_EQUAL(resolved.output_size.width, 10);
    TransformStep pad = step_of(TransformKind::kPad);
    pad.padding = {1, 2, 3, 4, PaddingMode::kConstant, {}};
    CHECK(make_plan({pad, crop_to(10, 10)})->resolve(&draws, {100, 100}, &resolved).is_ok());
    CHECK_EQUAL(resolved.source_region.width, 10);
    pad.padding.fill = {0, 0, 1};
    CHECK(make_plan({pad, crop_to(10, 10)})->resolve(&draws, {100, 100}, &resolved).is_ok());
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
    std::vector<TransformStep> all;
    for (const PixelOpKind kind : {PixelOpKind::kInvert, PixelOpKind::kSharpness, PixelOpKind::kRotate90,
                                   PixelOpKind::kHue, PixelOpKind::kAffine}) {
        TransformStep step = step_of(TransformKind::kPixelOp);
        step.is_certain = true;
        step.op = op_of(kind);
        step.op.factor = 0.4;
        step.op.matrix = {1.0, 0.2, 0.0, -0.1, 1.0, 3.0};
        all.push_back(step);
    }
    TransformStep pad = step_of(TransformKind::kPad);
    pad.padding = {3, 1, 0, 2, PaddingMode::kReflect, {}};
    all.push_back(pad);
    TransformStep flip = step_of(TransformKind::kRandomVerticalFlip);
    flip.probability = 1.0;
    all.push_back(flip);
    flip.kind = TransformKind::kRandomHorizontalFlip;
    all.push_back(flip);
    all.push_back(crop_to(31, 43));
    TransformStep resize = crop_to(40, 23);
    resize.kind = TransformKind::kResize;
    for (const Interpolation interpolation : {Interpolation::kNearest, Interpolation::kLanczos}) {
        resize.interpolation = interpolation;
        all.push_back(resize);
        resize.width += 9;
    }
    TransformExecutor shared(*select_kernel_table());
    std::mt19937 random(2);
    for (int i = 0; i < 150; ++i) {
        std::vector<TransformStep> steps;
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

TEST_CASE(plan_refuses_bad_arguments_of_new_steps_with_a_sentence) {
    TransformStep op = step_of(TransformKind::kPixelOp);
    op.is_certain = true;
    op.op.kind = PixelOpKind::kPosterize;
    op.op.bits = 0;
    check_mentions(problem_of({op}), "steps[0].op.bits must be in 1..8, got 0");
    op.op.kind = PixelOpKind::kHue;
    op.op.factor = -0.75;
    check_mentions(problem_of({op}), "steps[0].op.factor must be in [-0.5, 0.5], got -0.75");
    TransformStep apply = step_of(TransformKind::kRandomApply);
    apply.steps = {crop_to(5, 5), op};
    check_mentions(problem_of({crop_to(5, 5), apply}), "steps[1].steps[1].op.factor must be");
    TransformStep pad = step_of(TransformKind::kPad);
    pad.padding.top = -1;
    check_mentions(problem_of({pad}), "steps[0].top must be in 0..65535, got -1");
    TransformStep policy = step_of(TransformKind::kPolicy);
    check_mentions(problem_of({policy}), "steps[0].choices must not be empty");
    policy.policy = sub_policy(Version::kV1);
    policy.policy.subpolicies[0][1].ops.pop_back();
    check_mentions(problem_of({policy}), "steps[0].policies[0][1].ops must be one operation for each bin and sign, 2");
    TransformStep erase = step_of(TransformKind::kRandomErasing);
    erase.erase_value = {1, 2, 3};
    check_mentions(problem_of({erase, crop_to(5, 5)}), "steps[1] comes after a random_erasing");
    erase.erase_value.pop_back();
    check_mentions(problem_of({erase}), "steps[0].value must be 3 * element_size = 3 bytes, got 2");
}

}  // namespace fastload

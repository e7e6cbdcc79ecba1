#include "image/plan/transform_plan.h"

#include <deque>

#include "base/aligned_buffer.h"
#include "check.h"
#include "image/plan/normalization.h"
#include "image/plan/pixel_record.h"
#include "image/plan/transform_executor.h"
#include "image/plan/working_image.h"
#include "image/steps/affine.h"
#include "image/steps/crop.h"
#include "image/steps/hue.h"
#include "image/steps/pad.h"
#include "image/steps/point_ops.h"
#include "image/steps/policies.h"
#include "image/steps/random_apply.h"
#include "image/steps/resize.h"
#include "image/steps/sharpness.h"
#include "image/steps/transpositions.h"
#include "kernel_variants.h"
#include "plan_steps.h"
#include "test_images.h"

namespace fastload {
namespace {

using namespace testing;

PlacedStep crop(std::int32_t width, std::int32_t height) { return placed(sized<CenterCrop>(width, height)); }

PlacedStep resize(std::int32_t width, std::int32_t height) { return placed(sized<Resize>(width, height)); }

PlacedStep random_crop(std::int32_t width, std::int32_t height, std::uint32_t position = 0) {
    return placed(sized<RandomResizedCrop>(width, height), position);
}

PlacedStep shorter_side(std::int32_t size, std::optional<std::int32_t> max_size = std::nullopt) {
    ResizeShorterSide step;
    step.size = size;
    step.max_size = max_size;
    return placed(step);
}

template <typename Op>
PlacedStep always(const Op& op) {
    ApplyOp step;
    step.op = std::make_shared<Op>(op);
    return placed(step);
}

// Answers in the order given.
class ScriptedDraws final : public DrawSource {
  public:
    explicit ScriptedDraws(std::deque<std::uint32_t> answers)
        : DrawSource(UniformRule{}), answers_(std::move(answers)) {}
    void begin_step(std::uint32_t) noexcept override {}
    std::uint32_t below(std::uint32_t n) noexcept override { return next_bits24() % n; }

  private:
    std::uint32_t next_bits24() noexcept override {
        const std::uint32_t answer = answers_.at(0);
        answers_.pop_front();
        return answer;
    }

    std::deque<std::uint32_t> answers_;
};

// The operations of a step for these answers.
std::string words_of(const PlacedStep& step, std::deque<std::uint32_t> answers) {
    ScriptedDraws draws(std::move(answers));
    ResolvedTransform resolved;
    CHECK(make_plan({step})->resolve(&draws, {8, 8}, &resolved).is_ok());
    std::string words;
    for (std::size_t i = 0; i < resolved.operations.size(); ++i) words += testing::word_of(resolved, i) + " ";
    return words;
}

template <typename Positive, typename Negative>
std::shared_ptr<PolicyChoice> signed_choice() {
    PolicyChoice choice;
    choice.ops = {std::make_shared<Positive>(), std::make_shared<Negative>()};
    choice.is_signed = true;
    choice.num_bins = 1;
    choice.probability = 0.5;
    return std::make_shared<PolicyChoice>(choice);
}

std::string problem_at_fixed_size(Steps steps, OutputLayout layout = {}) {
    return problem_of(std::move(steps), std::move(layout), false);
}

Status resolve(const TransformPlan& plan, CounterDraws draws, ImageSize image, ResolvedTransform* resolved) {
    return plan.resolve(&draws, image, resolved);
}

std::vector<std::uint8_t> run(TransformExecutor& executor, const TransformPlan& plan, const StripImageView& image,
                              std::uint64_t sample = 0) {
    ResolvedTransform resolved;
    CHECK(resolve(plan, {1, 0, sample}, {image.width, image.height}, &resolved).is_ok());
    CHECK(resolved.source_region.lies_inside(image.width, image.height));
    AlignedBuffer destination;  // on a cache line, as in batches
    CHECK(destination.reserve(plan.sample_bytes()).is_ok());
    CHECK(executor.run(plan, resolved, image.crop(resolved.source_region), destination.data()).is_ok());
    return {destination.data(), destination.data() + plan.sample_bytes()};
}

// Planar uint8 with the result of `plan` on `image`, as an image again.
class Result {
  public:
    Result(const TransformPlan& plan, const StripImageView& image)
        : size_(plan.output_size()), pixels_(3 * static_cast<std::size_t>(size_.width * size_.height)) {
        TransformExecutor executor(*select_kernel_table());
        const std::vector<std::uint8_t> planes = run(executor, plan, image);
        const std::size_t plane = planes.size() / 3;
        for (std::size_t i = 0; i < planes.size(); ++i) pixels_[i % plane * 3 + i / plane] = planes[i];
    }
    PackedImageView view() const {
        return {pixels_.data(), 3 * static_cast<std::size_t>(size_.width), size_.width, size_.height};
    }

  private:
    ImageSize size_;
    std::vector<std::uint8_t> pixels_;
};

// Each step in its own plan, one after the other: any sequence must give the same result.
std::vector<std::uint8_t> run_one_by_one(const Steps& steps, const StripImageView& image) {
    TransformExecutor executor(*select_kernel_table());
    StripImageView strips = image;
    std::vector<std::uint8_t> planes;
    Steps done;
    std::unique_ptr<Result> result;
    for (const PlacedStep& step : steps) {
        // A flip alone has no fixed size; a center crop to the image's own size gives it one.
        const bool is_flip = dynamic_cast<const RandomHorizontalFlip*>(step.step.get()) != nullptr;
        const auto plan = make_plan({is_flip ? crop(strips.width, strips.height) : step, is_flip ? step : flip(0.0)});
        result = std::make_unique<Result>(*plan, strips);
        planes = run(executor, *plan, strips);
        CHECK(executor.load_packed(result->view(), &strips).is_ok());
    }
    return planes;
}

}  // namespace

TEST_CASE(plan_refuses_arguments_with_a_sentence) {
    check_mentions(problem_at_fixed_size({}), "depends on the size of the source");
    CHECK_EQUAL(make_plan({resize(40, 20), shorter_side(10)})->output_size().width, 20);
    check_mentions(problem_at_fixed_size({resize(5, 5), crop(5, 65536)}),
                   "steps[1]: height must be in 1..65535, got 65536");
    RandomResizedCrop box = sized<RandomResizedCrop>(5, 5);
    box.ratio[0] = 0;
    check_mentions(box.check(), "ratio must be two float32 numbers with 0 < first <= second");
    RandomApply apply;
    apply.steps = {crop(5, 5), always(Hue(-0.75))};
    check_mentions(problem_at_fixed_size({crop(5, 5), placed(apply)}), "steps[1]: steps[1]: factor must be");
    check_mentions(problem_at_fixed_size({resize(5, 5)}, {4, false, {}}),
                   "element_size must be 1 where there is no table, got 4");
}

// No seed that a test could try draws exactly a half.
TEST_CASE(draws_at_a_threshold_count_as_in_torchvision) {
    constexpr std::uint32_t kHalf = 1U << 23;  // of 24 bits
    RandomApply apply;
    apply.probability = 0.5;
    apply.steps = {always(Invert())};
    AutoAugment policy;
    policy.policies = {{signed_choice<Invert, Equalize>(), signed_choice<Contrast, Hue>()}};
    apply.family = policy.family = TorchvisionFamily::kV1;
    CHECK(words_of(placed(apply), {kHalf}) == "invert ");
    CHECK(words_of(placed(policy), {0, kHalf, kHalf + 1, 0, 1}) == "equalize ");
    apply.family = policy.family = TorchvisionFamily::kV2;
    CHECK(words_of(placed(apply), {kHalf}).empty());
    CHECK(words_of(placed(policy), {0, kHalf + 1, kHalf, kHalf}) == "hue ");
}

TEST_CASE(random_box_survives_absurd_ratios) {
    RandomBoxRule rule;
    rule.ratio[0] = 1e30;
    rule.ratio[1] = 1e38;
    rule.log_ratio = {69.0776F, 87.4982F};
    CounterDraws draws(1, 0, 0);
    CHECK_EQUAL(choose_random_box({100, 100}, rule, &draws).height, 0);
    rule.ratio[0] = rule.ratio[1] = 1e-300;
    rule.log_ratio.first = rule.log_ratio.second = -std::numeric_limits<float>::infinity();
    CHECK_EQUAL(choose_random_box({100, 100}, rule, &draws).width, 0);
}

TEST_CASE(plan_asks_only_for_the_pixels_that_a_crop_after_a_resize_shows) {
    ResolvedTransform resolved;
    // Outputs 5..14 of 20 from 200: the first reaches from 5.5 * 10 - 10, the last to 14.5 * 10 + 10.
    CHECK(resolve(*make_plan({resize(20, 20), crop(10, 10)}), {0, 0, 0}, {200, 100}, &resolved).is_ok());
    CHECK_EQUAL(resolved.source_region.left, 45);
    CHECK_EQUAL(resolved.source_region.top, 23);
    CHECK_EQUAL(resolved.source_region.width, 110);
    CHECK_EQUAL(resolved.source_region.height, 55);
    // After a crop the same pixels, counted from the crop's edge.
    CHECK(
        resolve(*make_plan({crop(200, 100), resize(20, 20), crop(10, 10)}), {0, 0, 0}, {300, 180}, &resolved).is_ok());
    CHECK_EQUAL(resolved.source_region.left, 50 + 45);
    CHECK_EQUAL(resolved.source_region.top, 40 + 23);
    CHECK_EQUAL(resolved.source_region.width, 110);
    // A mirrored image is resized as a whole.
    CHECK(resolve(*make_plan({flip(1.0), resize(20, 20), crop(10, 10)}), {0, 0, 0}, {200, 100}, &resolved).is_ok());
    CHECK_EQUAL(resolved.source_region.width, 200);
}

TEST_CASE(a_window_of_a_resize_equals_that_part_of_all_of_it) {
    std::mt19937 random(3);
    const auto side = [&](std::int32_t limit) {
        return static_cast<std::int32_t>(1 + random() % static_cast<unsigned>(limit));
    };
    for (int i = 0; i < 400; ++i) {
        Steps steps;
        if (random() % 2 == 0) steps.push_back(crop(side(90), side(90)));
        if (random() % 4 == 0) steps.push_back(flip(1.0));
        for (unsigned resizes = 1 + random() % 2; resizes > 0; --resizes) {
            Resize resize = sized<Resize>(side(80), side(80));
            resize.interpolation = static_cast<Interpolation>(random() % 6);
            steps.push_back(placed(resize));
            if (random() % 3 == 0) steps.push_back(flip(1.0));
            for (unsigned crops = 1 + random() % 2; crops > 0; --crops) {
                steps.push_back(crop(side(90), side(90)));
            }
        }
        const StripImage image(side(100), side(100), static_cast<std::uint32_t>(i));
        for_each_kernel_table([&](const KernelTable& kernels) {
            TransformExecutor executor(kernels);
            CHECK(run(executor, *make_plan(steps), image.view()) == run_one_by_one(steps, image.view()));
        });
    }
}

TEST_CASE(plan_reports_sizes_it_cannot_make) {
    ResolvedTransform resolved;
    const auto plan = make_plan({shorter_side(5, 8), crop(5, 5)});
    CHECK(resolve(*plan, {0, 0, 0}, {1000, 10}, &resolved).code == StatusCode::kInvalidGeometry);
    CHECK(resolve(*plan, {0, 0, 0}, {0, 10}, &resolved).code == StatusCode::kInvalidGeometry);
    CHECK(resolve(*plan, {0, 0, 0}, {65536, 10}, &resolved).code == StatusCode::kInvalidGeometry);
    CHECK(resolve(*make_plan({shorter_side(65535), crop(5, 5)}), {0, 0, 0}, {17, 1}, &resolved).code ==
          StatusCode::kInvalidGeometry);
}

TEST_CASE(executor_refuses_pixels_of_another_region) {
    const StripImage image(20, 20, 1);
    const auto plan = make_plan({crop(10, 10)});
    ResolvedTransform resolved;
    CHECK(resolve(*plan, {0, 0, 0}, {20, 20}, &resolved).is_ok());
    TransformExecutor executor(*select_kernel_table());
    std::vector<std::uint8_t> destination(plan->sample_bytes());
    CHECK(executor.run(*plan, resolved, image.view(), destination.data()).code == StatusCode::kInvalidGeometry);
    StripImageView strips;
    CHECK(executor.load_packed({destination.data(), 0, 0, 19}, &strips).code == StatusCode::kInvalidGeometry);
}

// Resizes whose rows become elements at once, and resizes that other steps need first: their float32 are the table
// entries of the bytes that the same steps give.
TEST_CASE(executor_writes_the_entries_of_the_bytes_of_every_sequence) {
    const std::vector<Steps> sequences = {
        {resize(128, 101)},
        {resize(144, 100), flip(1.0)},
        {shorter_side(128), crop(112, 112)},
        {shorter_side(110), flip(1.0), crop(112, 110)},
        {flip(1.0), resize(112, 100)},
        {resize(112, 100), crop(144, 90), flip(1.0)},
        {resize(112, 100), flip(1.0), crop(112, 120)},
        {resize(130, 120), flip(1.0), resize(112, 100)},
        {resize(130, 120), crop(110, 100), resize(144, 99), flip(1.0)},
        {resize(20, 20), resize(96, 110)},
        {resize(130, 120), resize(16, 20)},
        {resize(57, 120)},
        {resize(208, 45)},
        {random_crop(112, 112, 3), flip(0.5)},
        {resize(112, 112), crop(500, 500), random_crop(112, 100, 1)},
    };
    const float means[] = {0.5F, 0.25F, 0.125F};
    std::vector<float> table;
    for (int i = 0; i < 768; ++i) table.push_back((static_cast<float>(i % 256) / 255.0F - means[i / 256]) / 0.25F);
    OutputLayout floats = {4, false, std::vector<std::uint8_t>(table.size() * sizeof(float))};
    std::memcpy(floats.table.data(), table.data(), floats.table.size());
    const StripImage image(57, 45, 4);
    for (const bool is_bgr : {false, true}) {
        floats.is_bgr = is_bgr;
        for (const Steps& steps : sequences) {
            const auto plan = make_plan(steps, floats);
            CHECK(plan->normalizations() != nullptr);
            for_each_kernel_table([&](const KernelTable& kernels) {
                TransformExecutor executor(kernels);
                for (std::uint64_t sample = 0; sample < 3; ++sample) {
                    std::vector<float> expected;
                    const std::vector<std::uint8_t> bytes =
                        run(executor, *make_plan(steps, {1, false, {}, is_bgr}), image.view(), sample);
                    for (const std::uint8_t value : bytes) {
                        expected.push_back(table[256 * (expected.size() / (bytes.size() / 3)) + value]);
                    }
                    const std::vector<std::uint8_t> elements = run(executor, *plan, image.view(), sample);
                    CHECK_EQUAL(elements.size(), expected.size() * sizeof(float));
                    CHECK(std::memcmp(elements.data(), expected.data(), elements.size()) == 0);
                }
            });
        }
    }
}

// No plan asks for this: the resize makes more than the crop after it shows.
TEST_CASE(working_image_writes_the_part_of_a_resize_that_a_crop_shows) {
    std::vector<float> table;
    for (int i = 0; i < 768; ++i) table.push_back(static_cast<float>(i % 256) / 255.0F);
    const auto normalizations = find_normalizations(table.data());
    CHECK(normalizations.has_value());
    if (!normalizations.has_value()) return;
    const StripImage image(57, 45, 4);
    constexpr ImageSize kTo = {160, 140};
    constexpr Region kShown = {7, 5, 128, 110};
    const auto write = [&](const KernelTable& kernels, const ConvertJob& job, void* destination) {
        Workspace workspace(kernels);
        WorkingImage working(image.view(), Placement::of_whole({57, 45}), ResizeOrder::kPillow13, &workspace);
        const Region all = {0, 0, kTo.width, kTo.height};
        CHECK(working.resize(image.view(), {{57, 45}, kTo}, all, Interpolation::kBilinear).is_ok());
        working.crop({kShown});
        CHECK(working.write(job, false, destination).is_ok());
    };
    std::vector<std::uint8_t> bytes(3 * kShown.width * kShown.height);
    write(*select_kernel_table(), {}, bytes.data());
    ConvertJob job;
    job.element_size_bytes = 4;
    job.table = table.data();
    job.normalizations = normalizations->channels;
    for_each_kernel_table([&](const KernelTable& kernels) {
        AlignedBuffer memory;
        CHECK(memory.reserve(bytes.size() * sizeof(float)).is_ok());
        write(kernels, job, memory.data());
        const auto* elements = reinterpret_cast<const float*>(memory.data());
        for (std::size_t i = 0; i < bytes.size(); ++i) {
            if (elements[i] != table[bytes[i]]) return CHECK_EQUAL(elements[i], table[bytes[i]]);
        }
    });
}

TEST_CASE(executor_pads_where_a_random_crop_sees_no_pixel) {
    const StripImage image(2, 2, 4);
    const auto plan = make_plan({crop(200, 200), random_crop(8, 8, 1)});
    TransformExecutor executor(*select_kernel_table());
    int black = 0;
    for (std::uint64_t sample = 0; sample < 50; ++sample) {
        const std::vector<std::uint8_t> result = run(executor, *plan, image.view(), sample);
        black += result == std::vector<std::uint8_t>(result.size()) ? 1 : 0;
    }
    CHECK(black > 0 && black < 50);
}

TEST_CASE(executor_memory_stops_growing) {
    const auto plan = make_plan({flip(0.5), random_crop(24, 24), flip(0.5)});
    TransformExecutor executor(*select_kernel_table());
    const StripImage image(100, 75, 4);
    for (std::uint64_t sample = 0; sample < 200; ++sample) run(executor, *plan, image.view(), sample);
    const std::size_t held = executor.scratch_bytes();
    CHECK(held > 0);
    for (std::uint64_t sample = 200; sample < 400; ++sample) run(executor, *plan, image.view(), sample % 200);
    CHECK_EQUAL(executor.scratch_bytes(), held);
}

TEST_CASE(pixels_in_rows_give_the_same_as_strips_and_stay_as_they_are) {
    const StripImage strips(61, 47, 5);
    TransformExecutor executor(*select_kernel_table());
    const auto whole = make_plan({placed(sized<CenterCrop>(61, 47))});
    std::vector<std::uint8_t> rows = run(executor, *whole, strips.view());
    const std::vector<std::uint8_t> before = rows;
    const PlanarImageView image = planes_at(rows.data(), {61, 47});
    const PlacedStep in_place = always(Invert());
    const std::vector<Steps> pipelines = {
        {crop(61, 47)},
        {crop(70, 30)},
        {flip(1.0), crop(40, 47)},
        {in_place, crop(61, 47)},
        {flip(1.0), in_place, crop(30, 30), in_place},
        {resize(20, 31)},
        {crop(50, 40), resize(70, 66), in_place, crop(60, 60)},
        {shorter_side(33), flip(1.0), crop(33, 33)},
    };
    for (const Steps& steps : pipelines) {
        const auto plan = make_plan(steps);
        ResolvedTransform resolved;
        CHECK(resolve(*plan, {1, 0, 3}, {61, 47}, &resolved).is_ok());
        std::vector<std::uint8_t> made(plan->sample_bytes());
        CHECK(executor.run(*plan, resolved, crop_rows(image, resolved.source_region), made.data()).is_ok());
        CHECK(made == run(executor, *plan, strips.view(), 3));
        CHECK(rows == before);
    }
}

TEST_CASE(a_plan_for_images_of_one_size_takes_no_other) {
    std::string problem;
    PlanOptions options;
    options.source_size = ImageSize{40, 30};
    const auto plan = TransformPlan::create({flip(0.5)}, {}, options, &problem);
    CHECK(plan != nullptr);
    CHECK_EQUAL(plan->sample_bytes(), std::size_t{3 * 40 * 30});
    ResolvedTransform resolved;
    CHECK(resolve(*plan, {1, 0, 0}, {40, 30}, &resolved).is_ok());
    for (const ImageSize other : {ImageSize{30, 40}, ImageSize{40, 31}, ImageSize{1, 1}}) {
        CHECK(resolve(*plan, {1, 0, 0}, other, &resolved).code == StatusCode::kInvalidGeometry);
    }
}

TEST_CASE(pixels_before_an_operation_are_all_asked_for) {
    CounterDraws draws(0, 0, 0);
    ResolvedTransform resolved;
    const auto plan = make_plan({crop(40, 30), always(Contrast()), crop(10, 10)});
    CHECK(plan->resolve(&draws, {100, 100}, &resolved).is_ok());
    CHECK_EQUAL(resolved.source_region.width, 40);
    CHECK_EQUAL(resolved.source_region.height, 30);
    CHECK_EQUAL(resolved.output_size.width, 10);
    Pad pad;
    pad.left = pad.top = pad.right = pad.bottom = 3;
    CHECK(make_plan({placed(pad), crop(10, 10)})->resolve(&draws, {100, 100}, &resolved).is_ok());
    CHECK_EQUAL(resolved.source_region.width, 10);
    pad.fill = {0, 0, 1};
    CHECK(make_plan({placed(pad), crop(10, 10)})->resolve(&draws, {100, 100}, &resolved).is_ok());
    CHECK_EQUAL(resolved.source_region.width, 100);
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
    const Steps all = {always(Invert()), always(Sharpness(0.4)), always(Rotate90()), always(Hue(0.4)), always(affine),
                       placed(pad),      placed(vertical_flip),  flip(1.0),          crop(31, 43),     placed(nearest),
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

}  // namespace fastload

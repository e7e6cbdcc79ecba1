// Plans of any steps with any arguments, on an image of any small size. Plans that create() accepts must resolve to the
// promised size, run, and give the same bytes with the kernels of every instruction set.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fuzz_input.h"
#include "image/plan/transform_executor.h"
#include "image/plan/transform_plan.h"
#include "image/steps/affine.h"
#include "image/steps/blurs.h"
#include "image/steps/color_jitter.h"
#include "image/steps/crop.h"
#include "image/steps/hue.h"
#include "image/steps/pad.h"
#include "image/steps/point_ops.h"
#include "image/steps/policies.h"
#include "image/steps/random_apply.h"
#include "image/steps/random_erasing.h"
#include "image/steps/resize.h"
#include "image/steps/saturation.h"
#include "image/steps/sharpness.h"
#include "image/steps/transpositions.h"
#include "kernels/dispatch.h"
#include "test_images.h"

namespace fastload {
namespace {

using fuzzing::Input;
using fuzzing::require;

constexpr int kMaxSteps = 5;
constexpr std::int32_t kMaxSide = 80;

// Steps with arguments as users write them, and sometimes with any bits at all.
class StepMaker {
  public:
    explicit StepMaker(Input* input) noexcept : input_(*input) {}

    // True if an argument may ask for images that take too long to make.
    bool is_wild() const noexcept { return is_wild_; }

    Steps make_steps(int nesting) {
        Steps steps;
        const int count = input_.choose(kMaxSteps + 1);
        for (int i = 0; i < count; ++i) steps.push_back({position_++, make_step(nesting)});
        return steps;
    }

  private:
    bool is_odd() noexcept { return input_.choose(16) == 15; }

    std::int32_t side() noexcept {
        if (!is_odd()) return input_.choose(kMaxSide);
        is_wild_ = true;
        return input_.raw<std::int32_t>();
    }

    // In [-2, 2), or any bits.
    double number() noexcept { return is_odd() ? input_.raw<double>() : input_.raw<std::int16_t>() / 16384.0; }
    float radius() noexcept { return static_cast<float>(is_odd() ? input_.raw<double>() : std::abs(number())); }
    double probability() noexcept { return is_odd() ? number() : input_.choose(3) / 2.0; }
    std::optional<double> maybe_probability() noexcept {
        if (input_.choose(2) == 0) return std::nullopt;
        return probability();
    }

    Interpolation interpolation() noexcept { return static_cast<Interpolation>(input_.choose(6)); }
    TorchvisionFamily family() noexcept { return static_cast<TorchvisionFamily>(input_.choose(2)); }
    PaddingMode padding_mode() noexcept { return static_cast<PaddingMode>(input_.choose(4)); }
    RgbFill fill() noexcept { return input_.raw<RgbFill>(); }

    // Each one doubles the size; one in a plan keeps images small.
    std::optional<std::int32_t> max_size() noexcept {
        if (input_.choose(2) == 0) return side();
        if (has_open_side_) is_wild_ = true;
        has_open_side_ = true;
        return std::nullopt;
    }

    template <typename Kind>
    Kind sized() noexcept {
        Kind step;
        step.width = side();
        step.height = side();
        return step;
    }

    void set_rule(RandomBoxRule* rule) noexcept {
        if (input_.choose(2) == 0) return;
        rule->scale = {number(), number()};
        rule->ratio = {number(), number()};
        rule->log_ratio = {static_cast<float>(number()), static_cast<float>(number())};
    }

    std::vector<float> positions() {
        std::vector<float> made;
        const int half = input_.choose(6);
        for (int i = -half; i <= half; ++i) made.push_back(static_cast<float>(i));
        if (is_odd()) made.push_back(static_cast<float>(number()));
        return made;
    }

    std::shared_ptr<const PixelOp> make_op() {
        switch (input_.choose(20)) {
            case 0:
                return std::make_shared<Brightness>(number());
            case 1:
                return std::make_shared<Contrast>(number());
            case 2:
                return std::make_shared<Saturation>(number());
            case 3:
                return std::make_shared<Sharpness>(number());
            case 4:
                return std::make_shared<Hue>(number());
            case 5: {
                auto op = std::make_shared<Posterize>();
                op->bits = is_odd() ? input_.raw<std::int32_t>() : input_.choose(10);
                return op;
            }
            case 6: {
                auto op = std::make_shared<Solarize>();
                op->threshold = is_odd() ? number() : input_.choose(256);
                return op;
            }
            case 7: {
                auto op = std::make_shared<PointTable>();
                op->table.resize(is_odd() ? 767 : 768, std::byte{input_.raw<std::uint8_t>()});
                return op;
            }
            case 8:
                return std::make_shared<Invert>();
            case 9:
                return std::make_shared<Autocontrast>();
            case 10:
                return std::make_shared<Equalize>();
            case 11:
                return std::make_shared<Grayscale>();
            case 12:
                return std::make_shared<Rotate90>();
            case 13:
                return std::make_shared<Rotate180>();
            case 14:
                return std::make_shared<Rotate270>();
            case 15:
                return std::make_shared<Transpose>();
            case 16:
                return std::make_shared<Transverse>();
            case 17: {
                auto op = std::make_shared<Affine>();
                for (double& element : op->matrix) element = number();
                op->fill = fill();
                op->interpolation = interpolation();
                return op;
            }
            case 18: {
                auto op = std::make_shared<BoxBlur>();
                op->radius = {radius(), radius()};
                return op;
            }
            default: {
                auto op = std::make_shared<ThreeBoxBlurs>();
                op->sigma = {radius(), radius()};
                return op;
            }
        }
    }

    std::shared_ptr<const PolicyChoice> make_choice() {
        auto choice = std::make_shared<PolicyChoice>();
        choice->is_signed = input_.choose(2) == 1;
        choice->num_bins = 1 + input_.choose(3);
        choice->probability = probability();
        const int count = is_odd() ? input_.choose(8) : choice->num_bins * (choice->is_signed ? 2 : 1);
        for (int i = 0; i < count; ++i) choice->ops.push_back(make_op());
        return choice;
    }

    PolicyChoices make_choices() {
        PolicyChoices choices;
        const int count = input_.choose(4);
        for (int i = 0; i < count; ++i) choices.push_back(make_choice());
        return choices;
    }

    std::shared_ptr<const Step> make_step(int nesting) {
        switch (input_.choose(nesting == 0 ? 16 : 17)) {
            case 0: {
                auto step = sized<Resize>();
                step.interpolation = interpolation();
                return std::make_shared<Resize>(step);
            }
            case 1: {
                auto step = std::make_shared<ResizeShorterSide>();
                step->size = side();
                step->max_size = max_size();
                step->interpolation = interpolation();
                return step;
            }
            case 2:
                return std::make_shared<CenterCrop>(sized<CenterCrop>());
            case 3: {
                auto step = sized<RandomCrop>();
                step.pad_if_needed = input_.choose(2) == 1;
                step.padding_mode = padding_mode();
                step.fill = fill();
                step.family = family();
                return std::make_shared<RandomCrop>(step);
            }
            case 4: {
                auto step = sized<RandomResizedCrop>();
                set_rule(&step);
                step.interpolation = interpolation();
                return std::make_shared<RandomResizedCrop>(step);
            }
            case 5: {
                auto step = sized<FixedCrop>();
                step.left = side();
                step.top = side();
                return std::make_shared<FixedCrop>(step);
            }
            case 6: {
                auto step = sized<BoxResize>();
                for (float& edge : step.box) edge = is_odd() ? input_.raw<float>() : static_cast<float>(side()) / 2;
                step.interpolation = interpolation();
                return std::make_shared<BoxResize>(step);
            }
            case 7: {
                auto step = std::make_shared<RandomHorizontalFlip>();
                step->probability = maybe_probability();
                return step;
            }
            case 8: {
                auto step = std::make_shared<RandomVerticalFlip>();
                step->probability = maybe_probability();
                return step;
            }
            case 9: {
                auto step = std::make_shared<Pad>();
                step->left = side();
                step->top = side();
                step->right = side();
                step->bottom = side();
                step->mode = padding_mode();
                step->fill = fill();
                return step;
            }
            case 10: {
                auto step = std::make_shared<ColorJitter>();
                for (ColorJitter::Range* range : {&step->brightness, &step->contrast, &step->saturation, &step->hue}) {
                    if (input_.choose(2) == 1) *range = {number(), number()};
                }
                return step;
            }
            case 11: {
                auto step = std::make_shared<GaussianBlur>();
                step->family = family();
                step->columns = positions();
                step->rows = positions();
                step->sum_lanes = static_cast<std::size_t>(input_.choose(18));
                step->sigma = {radius(), radius()};
                return step;
            }
            case 12: {
                auto step = std::make_shared<RandomRotation>();
                step->degrees = {90 * number(), 90 * number()};
                if (input_.choose(2) == 1) step->center = {number(), number()};
                step->fill = fill();
                step->interpolation = interpolation();
                return step;
            }
            case 13: {
                auto step = std::make_shared<ApplyOp>();
                step->op = make_op();
                step->probability = maybe_probability();
                return step;
            }
            case 14:
                return make_policy();
            case 15: {
                auto step = std::make_shared<RandomErasing>();
                set_rule(step.get());
                step->probability = probability();
                step->value.resize(static_cast<std::size_t>(input_.choose(25)), std::byte{1});
                return step;
            }
            default: {
                auto step = std::make_shared<RandomApply>();
                step->probability = probability();
                step->family = family();
                step->steps = make_steps(nesting - 1);
                return step;
            }
        }
    }

    std::shared_ptr<const Step> make_policy() {
        switch (input_.choose(3)) {
            case 0: {
                auto step = std::make_shared<TrivialAugmentWide>();
                step->choices = make_choices();
                step->family = family();
                return step;
            }
            case 1: {
                auto step = std::make_shared<RandAugment>();
                step->num_ops = is_odd() ? input_.raw<std::int32_t>() : input_.choose(4);
                step->choices = make_choices();
                step->family = family();
                return step;
            }
            default: {
                auto step = std::make_shared<AutoAugment>();
                const int count = input_.choose(3);
                for (int i = 0; i < count; ++i) step->policies.push_back({make_choice(), make_choice()});
                step->family = family();
                return step;
            }
        }
    }

    Input& input_;
    std::uint32_t position_ = 0;
    bool is_wild_ = false;
    bool has_open_side_ = false;
};

OutputLayout make_layout(Input* input) {
    OutputLayout layout;
    layout.element_size_bytes = input->choose(16) == 15 ? input->choose(12) : 1 << input->choose(4);
    layout.channels_last = input->choose(2) == 1;
    if (layout.element_size_bytes == 1 && input->choose(2) == 0) return layout;
    const auto scale = static_cast<float>(1 + input->choose(255));
    layout.table.resize(768 * static_cast<std::size_t>(layout.element_size_bytes));
    if (layout.element_size_bytes != 4) return layout;
    for (std::size_t i = 0; i < 768; ++i) {
        const float element = static_cast<float>(i % 256) / scale;
        std::memcpy(&layout.table[4 * i], &element, 4);
    }
    return layout;
}

void run_everywhere(const TransformPlan& plan, const ResolvedTransform& resolved) {
    std::size_t num_bytes = 0;
    require(plan.count_bytes(resolved.output_size, &num_bytes));
    const testing::StripImage source(resolved.source_region.width, resolved.source_region.height, 1);
    std::vector<std::uint8_t> expected;
    for (const KernelTable* kernels : runnable_kernel_tables()) {
        // operator new aligns it for any element.
        std::vector<std::uint8_t> sample(num_bytes);
        TransformExecutor executor(*kernels);
        const Status status = executor.run(plan, resolved, source.view(), sample.data());
        require(status.is_ok() || status.code == StatusCode::kOutOfMemory);
        if (expected.empty()) expected = sample;
        require(sample == expected);
    }
}

void check_plan(Input input) {
    const ImageSize source = {1 + input.choose(48), 1 + input.choose(48)};
    const CounterDraws draws(input.raw<std::uint8_t>(), 0, 0);
    const PlanOptions options = {static_cast<ResizeOrder>(input.choose(3)), input.choose(4) != 0};
    OutputLayout layout = make_layout(&input);
    StepMaker maker(&input);
    Steps steps = maker.make_steps(1);
    std::string problem;
    const auto plan = TransformPlan::create(std::move(steps), std::move(layout), options, &problem);
    require((plan == nullptr) == !problem.empty());
    if (plan == nullptr) return;
    require(options.is_variable_size_allowed || plan->has_fixed_size());
    ResolvedTransform resolved;
    plan->reserve(&resolved);
    CounterDraws own = draws;
    const Status status = plan->resolve(&own, source, &resolved);
    require(status.is_ok() || status.code == StatusCode::kInvalidGeometry);
    if (!status.is_ok()) return;
    require(resolved.source_region.lies_inside(source.width, source.height));
    const ImageSize promised = plan->has_fixed_size() ? plan->output_size() : resolved.output_size;
    require(resolved.output_size.width == promised.width && resolved.output_size.height == promised.height);
    if (!maker.is_wild()) run_everywhere(*plan, resolved);
}

}  // namespace
}  // namespace fastload

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fastload::check_plan(fastload::fuzzing::Input({data, size}));
    return 0;
}

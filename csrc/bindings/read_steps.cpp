#include "bindings/read_steps.h"

#include "bindings/dict_reader.h"
#include "bindings/step_names.h"

namespace fastload {
namespace {

namespace py = pybind11;

std::string item_name(const std::string& name, std::size_t index) { return name + "[" + std::to_string(index) + "]"; }

std::int32_t read_side(DictReader* reader, const char* key, std::int32_t least = 1) {
    return static_cast<std::int32_t>(reader->integer(key, least, kMaxImageSide));
}

// 0 for None.
std::int32_t read_optional_side(DictReader* reader, const char* key) {
    const py::object value = reader->take(key);
    return value.is_none() ? 0 : read_side(reader, key);
}

void read_size(DictReader* reader, TransformStep* step) {
    step->height = read_side(reader, "height");
    step->width = read_side(reader, "width");
}

Interpolation read_interpolation(DictReader* reader) { return reader->word("interpolation", kInterpolationNames); }

// "log_ratio" and, where torch's own exp is wanted, "torch_exp".
LogRange read_log_range(DictReader* reader) {
    double bounds[2];
    reader->numbers("log_ratio", "a pair of numbers", &bounds);
    LogRange range{static_cast<float>(bounds[0]), static_cast<float>(bounds[1]), nullptr};
    if (reader->has("torch_exp")) {
        const py::object exp = reader->take("torch_exp");
        if (!py::isinstance<TorchExp>(exp)) reject(reader->name_of("torch_exp"), "a TorchExp", exp);
        range.torch_exp = exp.cast<std::shared_ptr<TorchExp>>();
    }
    return range;
}

RandomBoxRule read_box_rule(DictReader* reader) {
    RandomBoxRule rule;
    reader->numbers("scale", "a pair of numbers", &rule.scale);
    reader->numbers("ratio", "a pair of numbers", &rule.ratio);
    rule.log_ratio = read_log_range(reader);
    return rule;
}

RgbFill read_fill(DictReader* reader) {
    constexpr const char* kAllowed = "three ints in 0..255";
    const py::object shown = reader->take("fill");
    double numbers[3];
    reader->numbers("fill", kAllowed, &numbers);
    RgbFill fill{};
    for (std::size_t i = 0; i < 3; ++i) {
        const bool is_byte = numbers[i] >= 0.0 && numbers[i] <= 255.0;
        fill[i] = is_byte ? static_cast<std::uint8_t>(numbers[i]) : 0;
        if (!is_byte || fill[i] != numbers[i]) reject(reader->name_of("fill"), kAllowed, shown);
    }
    return fill;
}

PixelOp read_op(const std::string& name, const py::handle& dict) {
    DictReader reader(name, dict);
    PixelOp op;
    op.kind = reader.word("op", kPixelOpNames);
    switch (op.kind) {
        case PixelOpKind::kBrightness:
        case PixelOpKind::kContrast:
        case PixelOpKind::kSaturation:
        case PixelOpKind::kSharpness:
        case PixelOpKind::kHue:
            op.factor = reader.number("factor");
            break;
        case PixelOpKind::kPosterize:
            op.bits = static_cast<std::uint8_t>(reader.integer("bits", 1, 8));
            break;
        case PixelOpKind::kSolarize:
            op.threshold = reader.number("threshold");
            break;
        case PixelOpKind::kAffine:
            reader.numbers("matrix", "six numbers", &op.matrix);
            op.fill = read_fill(&reader);
            break;
        default:
            break;
    }
    reader.finish();
    return op;
}

std::vector<PixelOp> read_ops(DictReader* reader) {
    const py::sequence dicts = reader->sequence("ops");
    std::vector<PixelOp> ops;
    for (std::size_t i = 0; i < py::len(dicts); ++i)
        ops.push_back(read_op(item_name(reader->name_of("ops"), i), dicts[i]));
    return ops;
}

PolicyChoice read_choice(const std::string& name, const py::handle& dict) {
    DictReader reader(name, dict);
    PolicyChoice choice;
    choice.is_signed = reader.boolean("is_signed");
    choice.num_bins = static_cast<std::uint32_t>(reader.integer("num_bins", 1, kMaxImageSide));
    choice.ops = read_ops(&reader);
    reader.finish();
    return choice;
}

PolicyChoice read_sub_choice(const std::string& name, const py::handle& dict) {
    DictReader reader(name, dict);
    PolicyChoice choice;
    choice.probability = reader.number("probability");
    choice.is_signed = reader.boolean("is_signed");
    choice.ops = read_ops(&reader);
    reader.finish();
    return choice;
}

std::vector<std::array<PolicyChoice, 2>> read_subpolicies(DictReader* reader) {
    const py::sequence policies = reader->sequence("policies");
    std::vector<std::array<PolicyChoice, 2>> subpolicies;
    for (std::size_t i = 0; i < py::len(policies); ++i) {
        const std::string name = item_name(reader->name_of("policies"), i);
        const py::object pair = policies[i];
        if (!py::isinstance<py::sequence>(pair) || py::len(pair) != 2) reject(name, "a pair of operations", pair);
        const auto dicts = py::reinterpret_borrow<py::sequence>(pair);
        subpolicies.push_back(
            {read_sub_choice(item_name(name, 0), dicts[0]), read_sub_choice(item_name(name, 1), dicts[1])});
    }
    return subpolicies;
}

AugmentPolicy read_policy(DictReader* reader) {
    AugmentPolicy policy;
    policy.rule = reader->word("rule", kPolicyRuleNames);
    policy.draws = reader->word("draws", kDrawsNames);
    if (policy.rule == PolicyRule::kAutoAugment) {
        policy.subpolicies = read_subpolicies(reader);
        return policy;
    }
    if (policy.rule == PolicyRule::kRandAugment) {
        policy.num_ops = static_cast<std::uint32_t>(reader->integer("num_ops", 0, kMaxPolicyOps));
    }
    const py::sequence choices = reader->sequence("choices");
    for (std::size_t i = 0; i < py::len(choices); ++i) {
        policy.choices.push_back(read_choice(item_name(reader->name_of("choices"), i), choices[i]));
    }
    return policy;
}

ColorJitter read_jitter(DictReader* reader) {
    constexpr const char* kKeys[4] = {"brightness", "contrast", "saturation", "hue"};
    ColorJitter jitter;
    for (std::size_t i = 0; i < 4; ++i) {
        if (reader->take(kKeys[i]).is_none()) continue;
        double bounds[2];
        reader->numbers(kKeys[i], "None or a pair of numbers", &bounds);
        jitter.ranges[i] = FactorRange{bounds[0], bounds[1]};
    }
    return jitter;
}

Padding read_padding(DictReader* reader) {
    Padding padding;
    padding.left = read_side(reader, "left", 0);
    padding.top = read_side(reader, "top", 0);
    padding.right = read_side(reader, "right", 0);
    padding.bottom = read_side(reader, "bottom", 0);
    padding.mode = reader->word("padding_mode", kPaddingModeNames);
    padding.fill = read_fill(reader);
    return padding;
}

RandomCropRule read_crop_rule(DictReader* reader) {
    RandomCropRule rule;
    rule.is_padded_if_needed = reader->boolean("pad_if_needed");
    rule.filling.mode = reader->word("padding_mode", kPaddingModeNames);
    rule.filling.fill = read_fill(reader);
    rule.draws = reader->word("draws", kDrawsNames);
    return rule;
}

// At least one.
std::vector<float> read_positions(DictReader* reader, const char* key) {
    const py::sequence numbers = reader->sequence(key);
    std::vector<float> positions;
    for (const py::handle number : numbers) {
        if (!py::isinstance<py::float_>(number)) reject(reader->name_of(key), "floats", numbers);
        positions.push_back(number.cast<float>());
    }
    if (positions.empty()) reject(reader->name_of(key), "at least one float", numbers);
    return positions;
}

GaussianBlur read_blur(DictReader* reader) {
    GaussianBlur blur;
    double sigma[2];
    reader->numbers("sigma", "a pair of numbers", &sigma);
    blur.sigma_from = static_cast<float>(sigma[0]);
    blur.sigma_to = static_cast<float>(sigma[1]);
    blur.columns = read_positions(reader, "columns");
    blur.rows = read_positions(reader, "rows");
    blur.sum_lanes = static_cast<std::size_t>(reader->integer("sum_lanes", 1, 16));
    blur.version = reader->word("weights", kDrawsNames);
    if (reader->has("torch_gaussian")) {
        const py::object table = reader->take("torch_gaussian");
        if (!py::isinstance<TorchGaussian>(table)) reject(reader->name_of("torch_gaussian"), "a TorchGaussian", table);
        blur.torch_gaussian = table.cast<std::shared_ptr<TorchGaussian>>();
    }
    return blur;
}

void read_pixel_op(DictReader* reader, TransformStep* step) {
    step->is_certain = reader->take("probability").is_none();
    if (!step->is_certain) step->probability = reader->number("probability");
    step->op = read_op(reader->name_of("op"), reader->take("op"));
}

void read_random_apply(DictReader* reader, TransformStep* step) {
    step->probability = reader->number("probability");
    step->draws = reader->word("draws", kDrawsNames);
    step->steps = read_steps(reader->name_of("steps"), reader->sequence("steps"));
}

void read_random_erasing(DictReader* reader, TransformStep* step) {
    step->probability = reader->number("probability");
    step->box_rule = read_box_rule(reader);
    step->draws = reader->word("draws", kDrawsNames);
    const std::string value = reader->bytes("value");
    step->erase_value.assign(value.begin(), value.end());
}

void read_arguments(DictReader* reader, TransformStep* step) {
    switch (step->kind) {
        case TransformKind::kRandomResizedCrop:
            read_size(reader, step);
            step->box_rule = read_box_rule(reader);
            step->interpolation = read_interpolation(reader);
            break;
        case TransformKind::kResize:
            read_size(reader, step);
            step->interpolation = read_interpolation(reader);
            break;
        case TransformKind::kResizeShorterSide:
            step->size = read_side(reader, "size");
            step->max_size = read_optional_side(reader, "max_size");
            step->interpolation = read_interpolation(reader);
            break;
        case TransformKind::kCenterCrop:
            read_size(reader, step);
            break;
        case TransformKind::kPad:
            step->padding = read_padding(reader);
            break;
        case TransformKind::kRandomCrop:
            read_size(reader, step);
            step->crop_rule = read_crop_rule(reader);
            break;
        case TransformKind::kRandomHorizontalFlip:
        case TransformKind::kRandomVerticalFlip:
            step->probability = reader->number("probability");
            break;
        case TransformKind::kRandomApply:
            read_random_apply(reader, step);
            break;
        case TransformKind::kPixelOp:
            read_pixel_op(reader, step);
            break;
        case TransformKind::kColorJitter:
            step->jitter = read_jitter(reader);
            break;
        case TransformKind::kPolicy:
            step->policy = read_policy(reader);
            break;
        case TransformKind::kGaussianBlur:
            step->blur = read_blur(reader);
            break;
        case TransformKind::kRandomErasing:
            read_random_erasing(reader, step);
            break;
    }
}

TransformStep read_step(const std::string& name, const py::handle& dict) {
    DictReader reader(name, dict);
    TransformStep step;
    step.kind = reader.word("kind", kTransformNames);
    step.position = static_cast<std::uint32_t>(reader.integer("position", 0, UINT32_MAX));
    read_arguments(&reader, &step);
    reader.finish();
    return step;
}

}  // namespace

std::vector<TransformStep> read_steps(const std::string& name, const py::sequence& steps) {
    std::vector<TransformStep> result;
    for (std::size_t i = 0; i < py::len(steps); ++i) result.push_back(read_step(item_name(name, i), steps[i]));
    return result;
}

}  // namespace fastload

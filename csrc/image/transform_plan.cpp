#include "image/transform_plan.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <sstream>

#include "base/checked_math.h"
#include "image/placement.h"

namespace fastload {
namespace {

// The checks of arguments return a sentence, empty where all is well.

template <typename Value>
std::string sentence(const std::string& name, const char* allowed, const Value& value) {
    std::ostringstream text;
    text.precision(17);
    text << name << " must be " << allowed << ", got " << value;
    return text.str();
}

bool is_side(std::int64_t value) noexcept { return value >= 1 && value <= kMaxImageSide; }

bool is_resized_side(std::int64_t value) noexcept { return value >= 1 && value <= kMaxResizedSide; }

std::string check_side(const std::string& name, std::int32_t value) {
    return is_side(value) ? "" : sentence(name, "in 1..65535", value);
}

std::string check_size(const std::string& step, const TransformStep& checked) {
    std::string problem = check_side(step + ".height", checked.height);
    return problem.empty() ? check_side(step + ".width", checked.width) : problem;
}

std::string pair_text(const double* pair) {
    std::ostringstream text;
    text << "(" << pair[0] << ", " << pair[1] << ")";
    return text.str();
}

std::string check_box_rule(const std::string& step, const RandomBoxRule& rule) {
    constexpr double kLargest = std::numeric_limits<float>::max();  // they become float32
    const auto is_ordered = [](const double* pair) { return pair[0] <= pair[1] && pair[1] <= kLargest; };
    if (!is_ordered(rule.scale) || rule.scale[0] < 0.0) {
        return sentence(step + ".scale", "two float32 numbers with 0 <= first <= second", pair_text(rule.scale));
    }
    if (!is_ordered(rule.ratio) || !(rule.ratio[0] > 0.0)) {
        return sentence(step + ".ratio", "two float32 numbers with 0 < first <= second", pair_text(rule.ratio));
    }
    return "";
}

std::string check_shorter_side(const std::string& step, const TransformStep& checked) {
    std::string problem = check_side(step + ".size", checked.size);
    if (!problem.empty() || checked.max_size == 0) return problem;
    problem = check_side(step + ".max_size", checked.max_size);
    if (!problem.empty() || checked.max_size > checked.size) return problem;
    return sentence(step + ".max_size", "greater than size", checked.max_size);
}

std::string check_step(const std::string& name, const TransformStep& step) {
    switch (step.kind) {
        case TransformKind::kRandomResizedCrop: {
            std::string problem = check_size(name, step);
            return problem.empty() ? check_box_rule(name, step.box_rule) : problem;
        }
        case TransformKind::kResize:
        case TransformKind::kCenterCrop:
            return check_size(name, step);
        case TransformKind::kResizeShorterSide:
            return check_shorter_side(name, step);
        case TransformKind::kRandomHorizontalFlip:
            if (step.probability >= 0.0 && step.probability <= 1.0) return "";
            return sentence(name + ".probability", "in [0, 1]", step.probability);
    }
    return name + ".kind is unknown";
}

std::string check_layout(const OutputLayout& layout) {
    const int size = layout.element_size_bytes;
    if (size != 1 && size != 2 && size != 4 && size != 8) return sentence("element_size", "1, 2, 4 or 8", size);
    if (layout.table.empty()) return size == 1 ? "" : sentence("element_size", "1 where there is no table", size);
    const std::size_t expected = std::size_t{3} * 256 * static_cast<std::size_t>(size);
    if (layout.table.size() == expected) return "";
    return sentence("table", ("3 * 256 * element_size = " + std::to_string(expected) + " bytes").c_str(),
                    layout.table.size());
}

// The size behind `step`, nothing where it depends on the source.
std::optional<ImageSize> size_after(const TransformStep& step, std::optional<ImageSize> before) {
    switch (step.kind) {
        case TransformKind::kRandomHorizontalFlip:
            return before;
        case TransformKind::kResizeShorterSide: {
            if (!before) return std::nullopt;
            const LongSize size = resized_shorter_side(*before, step.size, step.max_size);
            if (!is_resized_side(size.width) || !is_resized_side(size.height)) return std::nullopt;
            return ImageSize{static_cast<std::int32_t>(size.width), static_cast<std::int32_t>(size.height)};
        }
        default:
            return ImageSize{step.width, step.height};
    }
}

std::string find_output_size(const std::vector<TransformStep>& steps, ImageSize* output_size) {
    std::optional<ImageSize> size;
    for (const TransformStep& step : steps) size = size_after(step, size);
    if (!size) {
        return "steps must end in an image of fixed size, but the result depends on the size of the source; add a "
               "resize to (height, width), a center_crop or a random_resized_crop";
    }
    *output_size = *size;
    return "";
}

bool count_sample_bytes(ImageSize size, int element_size_bytes, std::size_t* bytes) noexcept {
    return checked_multiply(static_cast<std::size_t>(size.width), static_cast<std::size_t>(size.height), bytes) &&
           checked_multiply(*bytes, std::size_t{3} * static_cast<std::size_t>(element_size_bytes), bytes);
}

std::string check_steps(const std::vector<TransformStep>& steps) {
    std::size_t resolved = 0;
    for (std::size_t i = 0; i < steps.size(); ++i) {
        std::string problem = check_step("steps[" + std::to_string(i) + "]", steps[i]);
        if (!problem.empty()) return problem;
        resolved += steps[i].kind == TransformKind::kRandomResizedCrop ? 2 : 1;
    }
    if (resolved <= kMaxResolvedSteps) return "";
    return sentence("steps", "at most 16 operations (random_resized_crop is two)", resolved);
}

// Appends concrete steps and follows the size and the pixels that are needed.
class Resolver {
  public:
    Resolver(ImageSize source, ResolvedTransform* out) noexcept : out_(out), placement_(Placement::of_whole(source)) {
        out_->step_count = 0;
        out_->source_size = source;
    }

    ImageSize size() const noexcept { return placement_.size; }

    void crop(const PaddedCrop& crop) noexcept {
        const bool is_whole = crop.inside.width == size().width && crop.inside.height == size().height &&
                              crop.width() == size().width && crop.height() == size().height;
        if (is_whole) return;
        ResolvedStep& step = append(ResolvedKind::kCrop);
        step.crop = crop;
        placement_.crop(crop);
    }

    // An image that has the size already is left alone, as in torchvision and in Pillow.
    void resize(ImageSize to, Interpolation interpolation) noexcept {
        if (to.width == size().width && to.height == size().height) return;
        ResolvedStep& step = append(ResolvedKind::kResize);
        step.size = to;
        step.interpolation = interpolation;
        note_source_region();
        placement_ = Placement::of_whole(to);
    }

    void flip() noexcept {
        append(ResolvedKind::kHorizontalFlip);
        placement_.flip();
    }

    void finish() noexcept { note_source_region(); }

  private:
    ResolvedStep& append(ResolvedKind kind) noexcept {
        ResolvedStep& step = out_->storage[out_->step_count++];
        step = {};
        step.kind = kind;
        return step;
    }

    // Up to the first resize the placement refers to the source.
    void note_source_region() noexcept {
        if (has_source_region_) return;
        has_source_region_ = true;
        out_->source_region = placement_.source;
        // A crop that shows only padding needs no pixel; some pixel must be asked for, and crops cut it away again.
        if (placement_.source.width == 0 || placement_.source.height == 0) out_->source_region = {0, 0, 1, 1};
    }

    ResolvedTransform* out_;
    Placement placement_;
    bool has_source_region_ = false;
};

bool draws(TransformKind kind) noexcept {
    return kind == TransformKind::kRandomResizedCrop || kind == TransformKind::kRandomHorizontalFlip;
}

Status invalid_size(const char* detail) noexcept { return {StatusCode::kInvalidGeometry, 0, 0, detail}; }

Status resolve_step(const TransformStep& step, DrawSource* draws, Resolver* resolver) noexcept {
    switch (step.kind) {
        case TransformKind::kRandomResizedCrop: {
            const Region box = choose_random_box(resolver->size(), step.box_rule, draws);
            if (box.width == 0 || box.height == 0) return invalid_size("a random crop of this image is empty");
            resolver->crop({box});
            resolver->resize({step.width, step.height}, step.interpolation);
            break;
        }
        case TransformKind::kResize:
            resolver->resize({step.width, step.height}, step.interpolation);
            break;
        case TransformKind::kResizeShorterSide: {
            const LongSize size = resized_shorter_side(resolver->size(), step.size, step.max_size);
            if (!is_resized_side(size.width) || !is_resized_side(size.height)) {
                return invalid_size("a side of the resized image is not in 1..1048576");
            }
            resolver->resize({static_cast<std::int32_t>(size.width), static_cast<std::int32_t>(size.height)},
                             step.interpolation);
            break;
        }
        case TransformKind::kCenterCrop:
            resolver->crop(center_crop(resolver->size(), {step.width, step.height}));
            break;
        case TransformKind::kRandomHorizontalFlip:
            if (draws->uniform() < static_cast<float>(step.probability)) resolver->flip();
            break;
    }
    return Status::ok();
}

}  // namespace

std::shared_ptr<TransformPlan> TransformPlan::create(std::vector<TransformStep> steps, OutputLayout layout,
                                                     ResizeOrder resize_order, std::string* problem) {
    auto plan = std::make_shared<TransformPlan>(OnlyInCreate{});
    *problem = check_steps(steps);
    if (problem->empty()) *problem = check_layout(layout);
    if (problem->empty()) *problem = find_output_size(steps, &plan->output_size_);
    if (!problem->empty()) return nullptr;
    if (!count_sample_bytes(plan->output_size_, layout.element_size_bytes, &plan->sample_bytes_)) {
        *problem = "the size of a sample in bytes does not fit into the address space";
        return nullptr;
    }
    plan->steps_ = std::move(steps);
    plan->layout_ = std::move(layout);
    plan->resize_order_ = resize_order;
    return plan;
}

bool TransformPlan::is_random() const noexcept {
    return std::any_of(steps_.begin(), steps_.end(), [](const TransformStep& step) { return draws(step.kind); });
}

Status TransformPlan::resolve(DrawSource* draws, ImageSize source, ResolvedTransform* out) const noexcept {
    if (!is_side(source.width) || !is_side(source.height)) {
        return invalid_size("a side of the image is not in 1..65535");
    }
    Resolver resolver(source, out);
    for (const TransformStep& step : steps_) {
        draws->begin_step(step.position);
        const Status status = resolve_step(step, draws, &resolver);
        if (!status.is_ok()) return status;
    }
    resolver.finish();
    return Status::ok();
}

}  // namespace fastload

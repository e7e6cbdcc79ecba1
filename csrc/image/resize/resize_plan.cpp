#include "image/resize/resize_plan.h"

#include <algorithm>
#include <cmath>

#include "base/checked_math.h"

namespace fastload {

// One axis of a ResizeShape: the part [begin, end) of `from` input pixels becomes `to` output pixels.
struct ResizedAxis {
    std::int32_t from;
    float begin;
    float end;
    std::int32_t to;

    bool stays() const noexcept { return from == to && begin == 0.0F && end == static_cast<float>(to); }
};

namespace {

ResizedAxis horizontal_axis(const ResizeShape& shape) noexcept {
    return {shape.from.width, shape.box.left, shape.box.right, shape.to.width};
}

ResizedAxis vertical_axis(const ResizeShape& shape) noexcept {
    return {shape.from.height, shape.box.top, shape.box.bottom, shape.to.height};
}

constexpr double kPi = 3.14159265358979323846;

// The weight at a distance in output pixels. The order of operations is the one in Pillow: other forms of the same
// function differ in the last bits, and so in some coefficients after rounding.

double box_weight(double x) noexcept { return x > -0.5 && x <= 0.5 ? 1.0 : 0.0; }

double bilinear_weight(double x) noexcept {
    const double distance = std::fabs(x);
    return distance < 1.0 ? 1.0 - distance : 0.0;
}

double sinc(double x) noexcept {
    if (x == 0.0) return 1.0;
    const double angle = x * kPi;
    return std::sin(angle) / angle;
}

double hamming_weight(double x) noexcept {
    const double distance = std::fabs(x);
    if (distance == 0.0) return 1.0;
    if (distance >= 1.0) return 0.0;
    // The window's constants are float32 in Pillow.
    const double window = static_cast<double>(0.54F) + static_cast<double>(0.46F) * std::cos(distance * kPi);
    return sinc(distance) * window;
}

double lanczos_weight(double x) noexcept { return -3.0 <= x && x < 3.0 ? sinc(x) * sinc(x / 3.0) : 0.0; }

// Outputs whose weights are computed together, tap by tap, in loops that compilers vectorise.
constexpr std::int32_t kBlockOutputs = 64;

// Weights at `count` distances, at most 64.
using Weigh = void (*)(const double* distances, std::int32_t count, double* weights);

template <double (*kWeight)(double)>
void weigh(const double* distances, std::int32_t count, double* weights) noexcept {
    for (std::int32_t i = 0; i < count; ++i) weights[i] = kWeight(distances[i]);
}

// Keys' cubic convolution with a = -0.5: one polynomial up to 1 and another up to 2. Outside of its piece each one is
// evaluated at the piece's end, where it is exactly 0, so that the sum is the right value. In a single loop GCC would
// make branches of the pieces, which cost more than both.
void weigh_bicubic(const double* distances, std::int32_t count, double* weights) noexcept {
    constexpr double kA = -0.5;
    double near[kBlockOutputs];
    double far[kBlockOutputs];
    for (std::int32_t i = 0; i < count; ++i) {
        const double distance = std::fabs(distances[i]);
        const double at_least_one = distance > 1.0 ? distance : 1.0;
        near[i] = distance < 1.0 ? distance : 1.0;
        far[i] = at_least_one < 2.0 ? at_least_one : 2.0;
    }
    for (std::int32_t i = 0; i < count; ++i) {
        const double inner = ((kA + 2.0) * near[i] - (kA + 3.0)) * near[i] * near[i] + 1.0;
        const double outer = (((far[i] - 5.0) * far[i] + 8.0) * far[i] - 4.0) * kA;
        weights[i] = inner + outer;
    }
}

std::int32_t to_fixed_point(double weight) noexcept {
    constexpr double kScale = 1 << kTapPrecisionBits;
    const double half = weight < 0.0 ? -0.5 : 0.5;
    return static_cast<std::int32_t>(weight * kScale + half);
}

// The reach of a filter at a given reduction.
struct FilterShape {
    std::int32_t from;    // number of input pixels
    double begin;         // start of the part that is resized
    double scale;         // input pixels per output pixel
    double filter_scale;  // the same, at least 1: enlarging interpolates, reducing averages
    double support;       // in input pixels, to each side

    FilterShape(const ResizedAxis& axis, double radius) noexcept
        : from(axis.from),
          begin(static_cast<double>(axis.begin)),
          scale(static_cast<double>(axis.end - axis.begin) / axis.to),
          filter_scale(std::max(scale, 1.0)),
          support(radius * filter_scale) {}

    std::int32_t most_taps() const noexcept { return 2 * static_cast<std::int32_t>(std::ceil(support)) + 1; }
};

// The inputs that up to 64 outputs read, and sums of their weights.
struct OutputBlock {
    std::int32_t outputs;
    std::int32_t most_taps = 0;
    std::int32_t first[kBlockOutputs];
    std::int32_t count[kBlockOutputs];
    double center[kBlockOutputs];
    double sum[kBlockOutputs];

    // The casts truncate, as C does in Pillow.
    OutputBlock(const FilterShape& shape, std::int32_t first_output, std::int32_t output_count)
        : outputs(output_count) {
        for (std::int32_t i = 0; i < outputs; ++i) {
            center[i] = shape.begin + (first_output + i + 0.5) * shape.scale;
            const auto begin = static_cast<std::int32_t>(center[i] - shape.support + 0.5);
            const auto end = static_cast<std::int32_t>(center[i] + shape.support + 0.5);
            first[i] = begin < 0 ? 0 : begin;
            count[i] = (end > shape.from ? shape.from : end) - first[i];
            most_taps = most_taps > count[i] ? most_taps : count[i];
        }
    }

    // Writes the weight of tap t of output i to weights[t * outputs + i], and 0 if it has no such tap: adding that to a
    // sum changes nothing.
    void compute_weights(const FilterShape& shape, Weigh weigh_block, double* weights) noexcept {
        const double inverse_scale = 1.0 / shape.filter_scale;
        double distances[kBlockOutputs];
        std::fill_n(sum, outputs, 0.0);
        for (std::int32_t t = 0; t < most_taps; ++t) {
            for (std::int32_t i = 0; i < outputs; ++i) {
                distances[i] = (first[i] + t - center[i] + 0.5) * inverse_scale;
            }
            weigh_block(distances, outputs, weights);
            for (std::int32_t i = 0; i < outputs; ++i) {
                weights[i] = t < count[i] ? weights[i] : 0.0;
                sum[i] += weights[i];
            }
            weights += outputs;
        }
        for (std::int32_t i = 0; i < outputs; ++i) sum[i] = sum[i] == 0.0 ? 1.0 : sum[i];
    }

    // Normalises to a sum of 1. Coefficients of output i start at coefficients[i * stride].
    void write_coefficients(const double* weights, std::int32_t* coefficients, std::size_t stride) const noexcept {
        for (std::int32_t t = 0; t < most_taps; ++t) {
            std::int32_t fixed[kBlockOutputs];
            for (std::int32_t i = 0; i < outputs; ++i) fixed[i] = to_fixed_point(weights[i] / sum[i]);
            for (std::int32_t i = 0; i < outputs; ++i) coefficients[static_cast<std::size_t>(i) * stride] = fixed[i];
            weights += outputs;
            ++coefficients;
        }
    }
};

struct Filter {
    Weigh weigh;
    double support;  // in output pixels if it reduces, otherwise in input pixels; to each side
};

Filter filter_of(Interpolation interpolation) noexcept {
    switch (interpolation) {
        case Interpolation::kBox:
            return {weigh<box_weight>, 0.5};
        case Interpolation::kHamming:
            return {weigh<hamming_weight>, 1.0};
        case Interpolation::kBicubic:
            return {weigh_bicubic, 2.0};
        case Interpolation::kLanczos:
            return {weigh<lanczos_weight>, 3.0};
        default:
            return {weigh<bilinear_weight>, 1.0};
    }
}

// The inputs that the outputs [begin, begin + count) of an axis read.
struct InputSpan {
    std::int32_t begin;
    std::int32_t length;
};

InputSpan input_of(const ResizedAxis& axis, std::int32_t begin, std::int32_t count,
                   Interpolation interpolation) noexcept {
    if (axis.stays()) return {begin, count};
    const FilterShape shape(axis, filter_of(interpolation).support);
    const OutputBlock front(shape, begin, 1);
    const OutputBlock back(shape, begin + count - 1, 1);
    return {front.first[0], back.first[0] + back.count[0] - front.first[0]};
}

}  // namespace

Region resize_source(const ResizeShape& shape, const Region& window, Interpolation interpolation) noexcept {
    const InputSpan x = input_of(horizontal_axis(shape), window.left, window.width, interpolation);
    const InputSpan y = input_of(vertical_axis(shape), window.top, window.height, interpolation);
    return {x.begin, y.begin, x.length, y.length};
}

bool is_vertical_first(ResizeOrder order, ImageSize from, ImageSize to) noexcept {
    const std::int32_t lost_rows = from.height - to.height;
    const std::int32_t lost_columns = from.width - to.width;
    if (order == ResizeOrder::kHorizontalFirst || lost_rows <= 0) return false;
    return order == ResizeOrder::kPillow13 ? lost_rows > 2 * lost_columns : from.height > 100 * from.width;
}

namespace {

ScanAxis describe_axis(const ResizedAxis& axis, std::int32_t first, std::int32_t count,
                       Interpolation interpolation) noexcept {
    const FilterShape shape(axis, filter_of(interpolation).support);
    const std::int32_t taps = axis.stays() ? 0 : shape.most_taps();
    return {axis.from, axis.to, axis.begin, axis.end, first, count, input_of(axis, first, count, interpolation).begin,
            taps};
}

}  // namespace

bool describe_resize(const ResizeShape& shape, const Region& window, Interpolation interpolation, ResizeOrder order,
                     ScanHead* head) noexcept {
    switch (interpolation) {
        case Interpolation::kBox:
            head->filter = ScanFilter::kBox;
            break;
        case Interpolation::kBilinear:
            head->filter = ScanFilter::kBilinear;
            break;
        case Interpolation::kBicubic:
            head->filter = ScanFilter::kBicubic;
            break;
        default:
            return false;
    }
    head->is_vertical_first = is_vertical_first(order, shape.from, shape.to) ? 1 : 0;
    head->x = describe_axis(horizontal_axis(shape), window.left, window.width, interpolation);
    head->y = describe_axis(vertical_axis(shape), window.top, window.height, interpolation);
    return true;
}

Status ResizePlan::prepare_axis(const ResizedAxis& resized, std::int32_t begin, std::int32_t output_count,
                                Interpolation interpolation, Axis* axis) noexcept {
    const Filter filter = filter_of(interpolation);
    const FilterShape shape(resized, filter.support);
    const std::int32_t stride = shape.most_taps();
    const auto outputs = static_cast<std::size_t>(output_count);
    std::size_t words = 0;
    std::size_t bytes = 0;
    if (!checked_multiply(outputs, static_cast<std::size_t>(stride) + 2, &words) ||
        !checked_multiply(words, sizeof(std::int32_t), &bytes)) {
        return {StatusCode::kInvalidGeometry, 0, 0, "the tap table of a resize is too large"};
    }
    if (Status status = axis->memory.reserve(bytes); !status.is_ok()) return status;
    const std::int32_t block_outputs = std::min(output_count, kBlockOutputs);
    const auto weight_count = static_cast<std::size_t>(stride) * static_cast<std::size_t>(block_outputs);
    if (Status status = weights_.reserve(weight_count * sizeof(double)); !status.is_ok()) return status;
    auto* first = reinterpret_cast<std::int32_t*>(axis->memory.data());
    std::int32_t* count = first + outputs;
    std::int32_t* coefficients = count + outputs;
    axis->taps = {first, count, coefficients, stride};
    auto* weights = reinterpret_cast<double*>(weights_.data());
    const std::int32_t origin = input_of(resized, begin, output_count, interpolation).begin;
    for (std::int32_t output = 0; output < output_count; output += kBlockOutputs) {
        OutputBlock block(shape, begin + output, std::min(output_count - output, kBlockOutputs));
        block.compute_weights(shape, filter.weigh, weights);
        for (std::int32_t i = 0; i < block.outputs; ++i) *first++ = block.first[i] - origin;
        count = std::copy_n(block.count, block.outputs, count);
        block.write_coefficients(weights, coefficients, static_cast<std::size_t>(stride));
        coefficients += static_cast<std::size_t>(block.outputs) * static_cast<std::size_t>(stride);
    }
    return Status::ok();
}

Status ResizePlan::prepare(const ResizeShape& shape, const Region& window, Interpolation interpolation,
                           ResizeOrder order) noexcept {
    job_ = {};
    job_.width = window.width;
    job_.height = window.height;
    job_.is_vertical_first = is_vertical_first(order, shape.from, shape.to);
    if (const ResizedAxis axis = horizontal_axis(shape); !axis.stays()) {
        const Status status = prepare_axis(axis, window.left, window.width, interpolation, &horizontal_);
        if (!status.is_ok()) return status;
        job_.horizontal = &horizontal_.taps;
    }
    if (const ResizedAxis axis = vertical_axis(shape); !axis.stays()) {
        const Status status = prepare_axis(axis, window.top, window.height, interpolation, &vertical_);
        if (!status.is_ok()) return status;
        job_.vertical = &vertical_.taps;
    }
    return Status::ok();
}

std::size_t ResizePlan::scratch_bytes() const noexcept {
    return horizontal_.memory.capacity() + vertical_.memory.capacity() + weights_.capacity();
}

void ResizePlan::release_scratch(ScratchRule rule) noexcept {
    for (AlignedBuffer* buffer : {&horizontal_.memory, &vertical_.memory, &weights_}) buffer->release(rule);
}

}  // namespace fastload

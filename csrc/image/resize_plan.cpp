#include "image/resize_plan.h"

#include <algorithm>
#include <cmath>

#include "base/checked_math.h"

namespace fastload {
namespace {

constexpr double kPi = 3.14159265358979323846;

// The weight at a distance in output pixels. The order of operations is Pillow's: other forms of the same function
// differ in the last bits, and so in some coefficients after rounding.

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

// Keys' cubic convolution with a = -0.5.
double bicubic_weight(double x) noexcept {
    constexpr double kA = -0.5;
    const double distance = std::fabs(x);
    if (distance < 1.0) return ((kA + 2.0) * distance - (kA + 3.0)) * distance * distance + 1.0;
    if (distance < 2.0) return (((distance - 5.0) * distance + 8.0) * distance - 4.0) * kA;
    return 0.0;
}

double lanczos_weight(double x) noexcept { return -3.0 <= x && x < 3.0 ? sinc(x) * sinc(x / 3.0) : 0.0; }

std::int32_t to_fixed_point(double weight) noexcept {
    constexpr double kScale = 1 << kTapPrecisionBits;
    return static_cast<std::int32_t>(weight < 0.0 ? weight * kScale - 0.5 : weight * kScale + 0.5);
}

// How far a filter reaches at a given reduction.
struct FilterShape {
    double scale;         // input pixels per output pixel
    double filter_scale;  // the same, at least 1: enlarging interpolates, reducing averages
    double support;       // in input pixels, to each side

    FilterShape(std::int32_t from, std::int32_t to, double radius) noexcept
        : scale(static_cast<double>(from) / to), filter_scale(std::max(scale, 1.0)), support(radius * filter_scale) {}

    std::int32_t most_taps() const noexcept { return 2 * static_cast<std::int32_t>(std::ceil(support)) + 1; }
};

struct TapRange {
    std::int32_t first;
    std::int32_t count;
};

// Weights of one output into `weights`, normalised to a sum of 1. The casts truncate, as C does in Pillow.
template <double (*kWeight)(double)>
TapRange compute_weights(const FilterShape& shape, std::int32_t from, std::int32_t output, double* weights) noexcept {
    const double center = (output + 0.5) * shape.scale;
    const std::int32_t first = std::max(0, static_cast<std::int32_t>(center - shape.support + 0.5));
    const std::int32_t end = std::min(from, static_cast<std::int32_t>(center + shape.support + 0.5));
    const double inverse_scale = 1.0 / shape.filter_scale;
    double sum = 0.0;
    for (std::int32_t x = first; x < end; ++x) {
        const double weight = kWeight((x - center + 0.5) * inverse_scale);
        weights[x - first] = weight;
        sum += weight;
    }
    if (sum != 0.0) {
        for (std::int32_t t = 0; t < end - first; ++t) weights[t] /= sum;
    }
    return {first, end - first};
}

struct Filter {
    TapRange (*compute_weights)(const FilterShape& shape, std::int32_t from, std::int32_t output, double* weights);
    double support;  // in output pixels where it reduces, else in input pixels; to each side
};

Filter filter_of(Interpolation interpolation) noexcept {
    switch (interpolation) {
        case Interpolation::kBox:
            return {compute_weights<box_weight>, 0.5};
        case Interpolation::kHamming:
            return {compute_weights<hamming_weight>, 1.0};
        case Interpolation::kBicubic:
            return {compute_weights<bicubic_weight>, 2.0};
        case Interpolation::kLanczos:
            return {compute_weights<lanczos_weight>, 3.0};
        default:
            return {compute_weights<bilinear_weight>, 1.0};
    }
}

}  // namespace

bool is_vertical_first(ResizeOrder order, ImageSize from, ImageSize to) noexcept {
    const std::int32_t lost_rows = from.height - to.height;
    const std::int32_t lost_columns = from.width - to.width;
    if (order == ResizeOrder::kHorizontalFirst || lost_rows <= 0) return false;
    return order == ResizeOrder::kPillow13 ? lost_rows > 2 * lost_columns : from.height > 100 * from.width;
}

Status ResizePlan::prepare_axis(std::int32_t from, std::int32_t to, Interpolation interpolation, Axis* axis) noexcept {
    const Filter filter = filter_of(interpolation);
    const FilterShape shape(from, to, filter.support);
    const std::int32_t stride = shape.most_taps();
    const auto outputs = static_cast<std::size_t>(to);
    std::size_t words = 0;
    std::size_t bytes = 0;
    if (!checked_multiply(outputs, static_cast<std::size_t>(stride) + 2, &words) ||
        !checked_multiply(words, sizeof(std::int32_t), &bytes)) {
        return {StatusCode::kInvalidGeometry, 0, 0, "the tap table of a resize is too large"};
    }
    if (Status status = axis->memory.reserve(bytes); !status.is_ok()) return status;
    if (Status status = weights_.reserve(static_cast<std::size_t>(stride) * sizeof(double)); !status.is_ok()) {
        return status;
    }
    auto* first = reinterpret_cast<std::int32_t*>(axis->memory.data());
    std::int32_t* count = first + outputs;
    std::int32_t* coefficients = count + outputs;
    axis->taps = {first, count, coefficients, stride};
    auto* weights = reinterpret_cast<double*>(weights_.data());
    for (std::int32_t output = 0; output < to; ++output) {
        const TapRange range = filter.compute_weights(shape, from, output, weights);
        *first++ = range.first;
        *count++ = range.count;
        std::transform(weights, weights + range.count, coefficients, to_fixed_point);
        coefficients += stride;
    }
    return Status::ok();
}

Status ResizePlan::prepare(ImageSize from, ImageSize to, Interpolation interpolation, ResizeOrder order) noexcept {
    job_ = {};
    job_.width = to.width;
    job_.height = to.height;
    job_.is_vertical_first = is_vertical_first(order, from, to);
    if (from.width != to.width) {
        if (Status status = prepare_axis(from.width, to.width, interpolation, &horizontal_); !status.is_ok()) {
            return status;
        }
        job_.horizontal = &horizontal_.taps;
    }
    if (from.height != to.height) {
        if (Status status = prepare_axis(from.height, to.height, interpolation, &vertical_); !status.is_ok()) {
            return status;
        }
        job_.vertical = &vertical_.taps;
    }
    return Status::ok();
}

std::size_t ResizePlan::scratch_bytes() const noexcept {
    return horizontal_.memory.capacity() + vertical_.memory.capacity() + weights_.capacity();
}

}  // namespace fastload

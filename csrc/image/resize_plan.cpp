#include "image/resize_plan.h"

#include <algorithm>
#include <cmath>

#include "base/checked_math.h"

namespace fastload {
namespace {

double bilinear_weight(double x) noexcept {
    const double distance = std::fabs(x);
    return distance < 1.0 ? 1.0 - distance : 0.0;
}

// Keys' cubic convolution with a = -0.5. The order of operations is Pillow's: other forms of the same polynomial differ
// in the last bits, and so in some coefficients after rounding.
double bicubic_weight(double x) noexcept {
    constexpr double kA = -0.5;
    const double distance = std::fabs(x);
    if (distance < 1.0) return ((kA + 2.0) * distance - (kA + 3.0)) * distance * distance + 1.0;
    if (distance < 2.0) return (((distance - 5.0) * distance + 8.0) * distance - 4.0) * kA;
    return 0.0;
}

double support_radius(Interpolation interpolation) noexcept {
    return interpolation == Interpolation::kBilinear ? 1.0 : 2.0;
}

std::int32_t to_fixed_point(double weight) noexcept {
    constexpr double kScale = 1 << kTapPrecisionBits;
    return static_cast<std::int32_t>(weight < 0.0 ? weight * kScale - 0.5 : weight * kScale + 0.5);
}

// How far the filter reaches at a given reduction.
struct FilterShape {
    Interpolation interpolation;
    double scale;         // input pixels per output pixel
    double filter_scale;  // the same, at least 1: enlarging interpolates, reducing averages
    double support;       // in input pixels, to each side

    FilterShape(std::int32_t from, std::int32_t to, Interpolation kind) noexcept
        : interpolation(kind),
          scale(static_cast<double>(from) / to),
          filter_scale(std::max(scale, 1.0)),
          support(support_radius(kind) * filter_scale) {}

    std::int32_t most_taps() const noexcept { return 2 * static_cast<std::int32_t>(std::ceil(support)) + 1; }
};

struct TapRange {
    std::int32_t first;
    std::int32_t count;
};

// Weights of one output into `weights`, normalised to a sum of 1. The casts truncate, as C does in Pillow.
TapRange compute_weights(const FilterShape& shape, std::int32_t from, std::int32_t output, double* weights) noexcept {
    const double center = (output + 0.5) * shape.scale;
    const std::int32_t first = std::max(0, static_cast<std::int32_t>(center - shape.support + 0.5));
    const std::int32_t end = std::min(from, static_cast<std::int32_t>(center + shape.support + 0.5));
    const double inverse_scale = 1.0 / shape.filter_scale;
    const bool is_bilinear = shape.interpolation == Interpolation::kBilinear;
    double sum = 0.0;
    for (std::int32_t x = first; x < end; ++x) {
        const double position = (x - center + 0.5) * inverse_scale;
        const double weight = is_bilinear ? bilinear_weight(position) : bicubic_weight(position);
        weights[x - first] = weight;
        sum += weight;
    }
    if (sum != 0.0) {
        for (std::int32_t t = 0; t < end - first; ++t) weights[t] /= sum;
    }
    return {first, end - first};
}

}  // namespace

bool is_vertical_first(ResizeOrder order, ImageSize from, ImageSize to) noexcept {
    const std::int32_t lost_rows = from.height - to.height;
    const std::int32_t lost_columns = from.width - to.width;
    if (order == ResizeOrder::kHorizontalFirst || lost_rows <= 0) return false;
    return order == ResizeOrder::kPillow13 ? lost_rows > 2 * lost_columns : from.height > 100 * from.width;
}

Status ResizePlan::prepare_axis(std::int32_t from, std::int32_t to, Interpolation interpolation, Axis* axis) noexcept {
    const FilterShape shape(from, to, interpolation);
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
        const TapRange range = compute_weights(shape, from, output, weights);
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

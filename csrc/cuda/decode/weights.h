// Pillow's weights of one result of a resize, as image/resize/resize_plan.cpp computes them.
#pragma once

#include <cstdint>

#include "cuda/decode/scan_sample.h"

namespace fastload {

// Doubles of which each operation is rounded. The device's compiler would make one of a product and a sum otherwise.
struct Rounded {
    double value;

    FASTLOAD_HOST_DEVICE friend Rounded operator+(Rounded a, Rounded b) {
#ifdef __CUDA_ARCH__
        return {__dadd_rn(a.value, b.value)};
#else
        return {a.value + b.value};
#endif
    }
    FASTLOAD_HOST_DEVICE friend Rounded operator-(Rounded a, Rounded b) { return a + Rounded{-b.value}; }
    FASTLOAD_HOST_DEVICE friend Rounded operator*(Rounded a, Rounded b) {
#ifdef __CUDA_ARCH__
        return {__dmul_rn(a.value, b.value)};
#else
        return {a.value * b.value};
#endif
    }
    FASTLOAD_HOST_DEVICE friend Rounded operator/(Rounded a, Rounded b) {
#ifdef __CUDA_ARCH__
        return {__ddiv_rn(a.value, b.value)};
#else
        return {a.value / b.value};
#endif
    }
};

// The weight at a distance in results.
FASTLOAD_HOST_DEVICE inline Rounded weight_at(ScanFilter filter, Rounded x) {
    const Rounded one = {1.0};
    const Rounded distance = {x.value < 0.0 ? -x.value : x.value};
    if (filter == ScanFilter::kBox) return {x.value > -0.5 && x.value <= 0.5 ? 1.0 : 0.0};
    if (filter == ScanFilter::kBilinear) return distance.value < 1.0 ? one - distance : Rounded{0.0};
    // One polynomial up to 1 and another up to 2. Outside of its piece each one is taken at the piece's end, where it
    // is 0.
    const Rounded a = {-0.5};
    const Rounded near = distance.value < 1.0 ? distance : one;
    const Rounded far = {distance.value > 1.0 ? (distance.value < 2.0 ? distance.value : 2.0) : 1.0};
    const Rounded inner = ((a + Rounded{2.0}) * near - (a + Rounded{3.0})) * near * near + one;
    const Rounded outer = (((far - Rounded{5.0}) * far + Rounded{8.0}) * far - Rounded{4.0}) * a;
    return inner + outer;
}

FASTLOAD_HOST_DEVICE inline double radius_of(ScanFilter filter) {
    return filter == ScanFilter::kBox ? 0.5 : (filter == ScanFilter::kBilinear ? 1.0 : 2.0);
}

// The weights of an axis in scratch memory.
struct AxisWeights {
    std::int32_t* first;  // [result]: its first pixel, in the region
    std::int32_t* count;
    std::int32_t* weights;  // [result, taps], scaled by 2^22

    FASTLOAD_HOST_DEVICE AxisWeights(const ScanAxis& axis, std::uint8_t* memory)
        : first(reinterpret_cast<std::int32_t*>(memory)), count(first + axis.count), weights(count + axis.count) {}
};

// Makes the weights of result `i` of those that are kept. `region` is the number of pixels that there are.
FASTLOAD_HOST_DEVICE inline void make_weights(const ScanAxis& axis, ScanFilter filter, std::int32_t region,
                                              std::int32_t i, const AxisWeights& out) {
    const Rounded half = {0.5};
    const Rounded scale = Rounded{static_cast<double>(axis.end - axis.begin)} / Rounded{static_cast<double>(axis.to)};
    const Rounded filter_scale = {scale.value < 1.0 ? 1.0 : scale.value};
    const Rounded support = Rounded{radius_of(filter)} * filter_scale;
    const Rounded inverse = Rounded{1.0} / filter_scale;
    const Rounded center =
        Rounded{static_cast<double>(axis.begin)} + (Rounded{static_cast<double>(axis.first + i)} + half) * scale;
    // The casts truncate, as in Pillow.
    const auto begin = static_cast<std::int32_t>((center - support + half).value);
    const auto end = static_cast<std::int32_t>((center + support + half).value);
    const std::int32_t first = begin < 0 ? 0 : begin;
    // A right head needs no clamp: these keep a wrong one inside of its memory.
    const std::int32_t place = clamp_to(first - axis.origin, 0, region - 1);
    const std::int32_t most = axis.taps < region - place ? axis.taps : region - place;
    const std::int32_t count = clamp_to((end > axis.from ? axis.from : end) - first, 0, most);
    out.first[i] = place;
    out.count[i] = count;
    const auto weight = [&](std::int32_t t) {
        return weight_at(filter, (Rounded{static_cast<double>(first + t)} - center + half) * inverse);
    };
    Rounded sum = {0.0};
    for (std::int32_t t = 0; t < count; ++t) sum = sum + weight(t);
    if (sum.value == 0.0) sum.value = 1.0;
    std::int32_t* const weights = out.weights + static_cast<std::int64_t>(i) * axis.taps;
    for (std::int32_t t = 0; t < count; ++t) {
        const Rounded share = weight(t) / sum;
        const Rounded scaled = share * Rounded{4194304.0} + Rounded{share.value < 0.0 ? -0.5 : 0.5};
        // A right weight is far below the limit.
        const double limit = 1 << 30;
        weights[t] =
            static_cast<std::int32_t>(scaled.value < -limit ? -limit : (scaled.value > limit ? limit : scaled.value));
    }
}

// The weights of both axes: of the columns first, then of the rows. An axis that stays has none.
FASTLOAD_HOST_DEVICE inline void make_all_weights(const ScanSample& sample, ThreadShare share) {
    const ScanHead& head = sample.head();
    const ScanScratch scratch(head);
    const auto columns = static_cast<std::uint64_t>(head.x.taps != 0 ? head.x.count : 0);
    const auto rows = static_cast<std::uint64_t>(head.y.taps != 0 ? head.y.count : 0);
    for (std::uint64_t i = share.first; i < columns + rows; i += share.stride) {
        const bool is_column = i < columns;
        const ScanAxis& axis = is_column ? head.x : head.y;
        const AxisWeights out(axis, sample.scratch + (is_column ? scratch.weights_x : scratch.weights_y));
        make_weights(axis, head.filter, is_column ? head.region_width : head.region_height,
                     static_cast<std::int32_t>(is_column ? i : i - columns), out);
    }
}

}  // namespace fastload

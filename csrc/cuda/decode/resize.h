// Pillow's resize in two passes, and the result in its place.
#pragma once

#include <cstdint>

#include "cuda/decode/weights.h"

namespace fastload {

// One pass: planes of rows without gaps become others.
struct ResizePass {
    const std::uint8_t* from;
    std::uint8_t* to;
    std::uint32_t from_width;
    std::uint32_t from_height;
    std::uint32_t to_width;
    std::uint32_t to_height;
    bool is_along_rows;
};

// The first of two passes, or the last one, which there is if an axis changes.
FASTLOAD_HOST_DEVICE inline ResizePass resize_pass(const ScanSample& sample, bool is_last) {
    const ScanHead& head = sample.head();
    const ScanScratch scratch(head);
    const auto width = static_cast<std::uint32_t>(head.region_width);
    const auto height = static_cast<std::uint32_t>(head.region_height);
    const auto new_width = static_cast<std::uint32_t>(head.x.count);
    const auto new_height = static_cast<std::uint32_t>(head.y.count);
    const bool has_two = has_two_passes(head);
    const bool is_first_along_rows = has_two ? head.is_vertical_first == 0 : head.x.taps != 0;
    std::uint8_t* const between = sample.scratch + scratch.between;
    if (!has_two || !is_last) {
        ResizePass pass = {sample.scratch + scratch.region,
                           has_two ? between : sample.scratch + scratch.resized,
                           width,
                           height,
                           width,
                           height,
                           is_first_along_rows};
        (is_first_along_rows ? pass.to_width : pass.to_height) = is_first_along_rows ? new_width : new_height;
        return pass;
    }
    return {between,
            sample.scratch + scratch.resized,
            is_first_along_rows ? new_width : width,
            is_first_along_rows ? height : new_height,
            new_width,
            new_height,
            !is_first_along_rows};
}

// Makes results of the pass, numbered by planes and rows. All sizes fit 32 bits, as the scratch memory does.
FASTLOAD_HOST_DEVICE inline void run_pass(const ScanSample& sample, const ResizePass& pass, ThreadShare share) {
    const ScanHead& head = sample.head();
    const ScanScratch scratch(head);
    const ScanAxis& axis = pass.is_along_rows ? head.x : head.y;
    const AxisWeights axis_weights(axis, sample.scratch + (pass.is_along_rows ? scratch.weights_x : scratch.weights_y));
    const std::uint32_t results = 3 * pass.to_width * pass.to_height;
    const std::uint32_t step = pass.is_along_rows ? 1 : pass.from_width;
    const auto stride = static_cast<std::uint32_t>(share.stride);
    for (auto i = static_cast<std::uint32_t>(share.first); i < results; i += stride) {
        const std::uint32_t x = i % pass.to_width;
        const std::uint32_t row = i / pass.to_width;
        const std::uint32_t y = row % pass.to_height;
        const std::uint32_t plane = row / pass.to_height;
        const std::uint32_t result = pass.is_along_rows ? x : y;
        const auto first = static_cast<std::uint32_t>(axis_weights.first[result]);
        const std::uint32_t from_x = pass.is_along_rows ? first : x;
        const std::uint32_t from_y = pass.is_along_rows ? y : first;
        const std::uint8_t* from = pass.from + (plane * pass.from_height + from_y) * pass.from_width + from_x;
        const std::int32_t* const weights = axis_weights.weights + result * static_cast<std::uint32_t>(axis.taps);
        // Unsigned: wrong weights may add up to more than an int holds.
        std::uint32_t sum = 1U << 21;
        for (std::int32_t t = 0; t < axis_weights.count[result]; ++t, from += step) {
            sum += *from * static_cast<std::uint32_t>(weights[t]);
        }
        pass.to[i] = static_cast<std::uint8_t>(clamp_to(static_cast<std::int32_t>(sum) >> 22, 0, 255));
    }
}

// Writes pixels of the result, numbered by rows.
FASTLOAD_HOST_DEVICE inline void write_pixels(const ScanSample& sample, ThreadShare share) {
    const ScanHead& head = sample.head();
    const ScanScratch scratch(head);
    const ScanPlacement& placement = head.placement;
    const std::uint8_t* const planes = sample.scratch + (has_a_pass(head) ? scratch.resized : scratch.region);
    const std::uint64_t plane = static_cast<std::uint64_t>(head.x.count) * static_cast<std::uint64_t>(head.y.count);
    const auto width = static_cast<std::uint64_t>(placement.width);
    const std::uint64_t pixels = width * static_cast<std::uint64_t>(placement.height);
    for (std::uint64_t i = share.first; i < pixels; i += share.stride) {
        const std::int32_t x = static_cast<std::int32_t>(i % width) - placement.left;
        const std::int32_t y = static_cast<std::int32_t>(i / width) - placement.top;
        const bool is_inside = x >= 0 && x < head.x.count && y >= 0 && y < head.y.count;
        const std::int32_t column = head.is_mirrored != 0 ? head.x.count - 1 - x : x;
        const auto at = static_cast<std::uint64_t>(is_inside ? y * head.x.count + column : 0);
        for (std::uint64_t channel = 0; channel < 3; ++channel) {
            sample.pixels[3 * i + channel] = is_inside ? planes[channel * plane + at] : std::uint8_t{0};
        }
    }
}

}  // namespace fastload

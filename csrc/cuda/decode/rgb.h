// Upsampling and colour of a region, the arithmetic of kernels/upsample.h and kernels/color.h, pixel by pixel.
#pragma once

#include <cstdint>

#include "cuda/decode/scan_sample.h"

namespace fastload {

// A component's samples, as of the whole image; outside of it lie copies of its edge.
class ComponentSamples {
  public:
    FASTLOAD_HOST_DEVICE ComponentSamples(const ScanSample& sample, const WireComponent& component)
        : component_(component),
          samples_(sample.samples(component)),
          row_bytes_(8 * blocks_wide(sample.head(), component)),
          first_column_(8 * sample.head().left * component.horizontal),
          first_row_(8 * sample.head().top * component.vertical) {}

    // The component at pixel (x, y) of the image.
    FASTLOAD_HOST_DEVICE int at_pixel(std::int32_t x, std::int32_t y) const {
        const bool is_right = (x & 1) != 0;
        const bool is_lower = (y & 1) != 0;
        switch (component_.upsampling) {
            case ScanUpsampling::kNone:
                return at(x, y);
            case ScanUpsampling::kH2v1:
                return (3 * at(x / 2, y) + at(x / 2 + (is_right ? 1 : -1), y) + (is_right ? 2 : 1)) >> 2;
            case ScanUpsampling::kH1v2:
                return (3 * at(x, y / 2) + at(x, y / 2 + (is_lower ? 1 : -1)) + (is_lower ? 2 : 1)) >> 2;
            case ScanUpsampling::kH2v2: {
                const std::int32_t row = y / 2 + (is_lower ? 1 : -1);
                const std::int32_t column = x / 2 + (is_right ? 1 : -1);
                const int near = 3 * at(x / 2, y / 2) + at(x / 2, row);
                const int far = 3 * at(column, y / 2) + at(column, row);
                return (3 * near + far + (is_right ? 7 : 8)) >> 4;
            }
            default:
                return at(x / component_.expand_x, y / component_.expand_y);
        }
    }

  private:
    FASTLOAD_HOST_DEVICE int at(std::int32_t column, std::int32_t row) const {
        const std::int32_t x = clamp_to(column, 0, component_.width - 1) - first_column_;
        const std::int32_t y = clamp_to(row, 0, component_.height - 1) - first_row_;
        return samples_[y * row_bytes_ + x];
    }

    const WireComponent& component_;
    const std::uint8_t* samples_;
    std::int32_t row_bytes_;
    std::int32_t first_column_;
    std::int32_t first_row_;
};

// Makes pixels of the region, numbered by rows.
FASTLOAD_HOST_DEVICE inline void make_rgb(const ScanSample& sample, ThreadShare share) {
    const ScanHead& head = sample.head();
    const bool is_gray = head.color == ScanColor::kGray;
    const ComponentSamples first(sample, head.components[0]);
    const ComponentSamples second(sample, head.components[is_gray ? 0 : 1]);
    const ComponentSamples third(sample, head.components[is_gray ? 0 : 2]);
    const auto width = static_cast<std::uint64_t>(head.region_width);
    const std::uint64_t pixels = width * static_cast<std::uint64_t>(head.region_height);
    std::uint8_t* const region = sample.scratch + ScanScratch(head).region;
    for (std::uint64_t i = share.first; i < pixels; i += share.stride) {
        const std::int32_t x = head.region_left + static_cast<std::int32_t>(i % width);
        const std::int32_t y = head.region_top + static_cast<std::int32_t>(i / width);
        int red = first.at_pixel(x, y);
        int green = red;
        int blue = red;
        if (head.color == ScanColor::kYcc) {
            const int cb = second.at_pixel(x, y) - 128;
            const int cr = third.at_pixel(x, y) - 128;
            green = clamp_to(red + ((-22554 * cb - 46802 * cr + 32768) >> 16), 0, 255);
            blue = clamp_to(red + ((116130 * cb + 32768) >> 16), 0, 255);
            red = clamp_to(red + ((91881 * cr + 32768) >> 16), 0, 255);
        } else if (!is_gray) {
            green = second.at_pixel(x, y);
            blue = third.at_pixel(x, y);
        }
        region[i] = static_cast<std::uint8_t>(red);
        region[pixels + i] = static_cast<std::uint8_t>(green);
        region[2 * pixels + i] = static_cast<std::uint8_t>(blue);
    }
}

}  // namespace fastload

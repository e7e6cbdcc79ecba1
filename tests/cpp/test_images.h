// Pixels for the kernel and transform tests: random images in column strips of exactly the promised size.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <vector>

#include "base/image_view.h"

namespace fastload::testing {

// A random image. Only the promised bytes exist, so that the address sanitizer detects any other read.
class StripImage {
  public:
    StripImage(std::int32_t width, std::int32_t height, std::uint32_t seed, bool has_only_extremes = false)
        : width_(width), height_(height), stride_(kStripRows * static_cast<std::size_t>(width)) {
        std::mt19937 random(seed);
        const std::size_t strips = (static_cast<std::size_t>(height) + kStripRows - 1) / kStripRows;
        for (auto& plane : planes_) {
            plane.resize(strips * stride_);
            for (std::uint8_t& byte : plane) {
                byte = static_cast<std::uint8_t>(has_only_extremes ? (random() & 1U) * 255U : random() & 255U);
            }
        }
    }

    StripImageView view() const {
        return {{planes_[0].data(), planes_[1].data(), planes_[2].data()}, stride_, 0, 0, width_, height_};
    }

  private:
    std::int32_t width_;
    std::int32_t height_;
    std::size_t stride_;
    std::vector<std::uint8_t> planes_[3];
};

// A region of an image of `size`; next() gives unsigned numbers.
template <typename Next>
Region any_region(const ImageSize& size, Next&& next) {
    const auto pick = [&next](std::int32_t count) {
        return static_cast<std::int32_t>(next() % static_cast<std::uint32_t>(count));
    };
    Region region;
    region.left = pick(size.width);
    region.top = pick(size.height);
    region.width = 1 + pick(size.width - region.left);
    region.height = 1 + pick(size.height - region.top);
    return region;
}

// The rows of one plane, without a byte between or after them.
inline std::vector<std::uint8_t> pixels_of(const StripImageView& view, int plane) {
    std::vector<std::uint8_t> pixels;
    for (std::int32_t y = 0; y < view.height; ++y) {
        for (std::int32_t x = 0; x < view.width; ++x) pixels.push_back(view.at(plane, x, y));
    }
    return pixels;
}

// The rows of the three planes, one after the other.
inline std::vector<std::uint8_t> pixels_of(const StripImageView& view) {
    std::vector<std::uint8_t> pixels;
    for (int plane = 0; plane < 3; ++plane) {
        const std::vector<std::uint8_t> rows = pixels_of(view, plane);
        pixels.insert(pixels.end(), rows.begin(), rows.end());
    }
    return pixels;
}

// Rows without a byte between or after them, so that the address sanitizer detects every other access.
class TightImage {
  public:
    TightImage(std::int32_t width, std::int32_t height, std::uint32_t seed = 0) : width_(width), height_(height) {
        std::mt19937 random(seed);
        for (auto& plane : planes_) {
            plane.resize(static_cast<std::size_t>(width) * static_cast<std::size_t>(height));
            for (std::uint8_t& value : plane) value = static_cast<std::uint8_t>(seed == 0 ? 0 : random());
        }
    }
    explicit TightImage(const StripImageView& source) : width_(source.width), height_(source.height) {
        for (int plane = 0; plane < 3; ++plane) planes_[plane] = pixels_of(source, plane);
    }
    PlanarImageView view() {
        return {{planes_[0].data(), planes_[1].data(), planes_[2].data()},
                static_cast<std::size_t>(width_),
                width_,
                height_};
    }
    ImageSize size() const { return {width_, height_}; }
    std::uint8_t at(std::size_t plane, std::int32_t x, std::int32_t y) const {
        return planes_[plane][static_cast<std::size_t>(y * width_ + x)];
    }
    bool operator==(const TightImage& other) const {
        return width_ == other.width_ && height_ == other.height_ &&
               std::equal(std::begin(planes_), std::end(planes_), std::begin(other.planes_));
    }

  private:
    std::int32_t width_;
    std::int32_t height_;
    std::vector<std::uint8_t> planes_[3];
};

// The results of torchvision's ToTensor and Normalize for every value.
inline std::vector<float> normalized_table(const float (&means)[3], const float (&stds)[3]) {
    std::vector<float> table;
    for (int channel = 0; channel < 3; ++channel) {
        for (int value = 0; value < 256; ++value) {
            table.push_back((static_cast<float>(value) / 255.0F - means[channel]) / stds[channel]);
        }
    }
    return table;
}

// Three planes of rows for results, with the stride that resize kernels require.
class PlanarImage {
  public:
    PlanarImage(std::int32_t width, std::int32_t height)
        : width_(width), height_(height), stride_((static_cast<std::size_t>(width) + 63) / 64 * 64) {
        for (auto& plane : planes_) plane.resize(stride_ * static_cast<std::size_t>(height));
    }

    PlanarImageView view() {
        return {{planes_[0].data(), planes_[1].data(), planes_[2].data()}, stride_, width_, height_};
    }

    std::uint8_t at(int plane, std::int32_t x, std::int32_t y) const {
        return planes_[plane][static_cast<std::size_t>(y) * stride_ + static_cast<std::size_t>(x)];
    }

    std::uint8_t& at(int plane, std::int32_t x, std::int32_t y) {
        return planes_[plane][static_cast<std::size_t>(y) * stride_ + static_cast<std::size_t>(x)];
    }

  private:
    std::int32_t width_;
    std::int32_t height_;
    std::size_t stride_;
    std::vector<std::uint8_t> planes_[3];
};

}  // namespace fastload::testing

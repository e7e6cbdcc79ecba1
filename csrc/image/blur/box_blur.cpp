#include "image/blur/box_blur.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <utility>

#include "kernels/transpose.h"

namespace fastload {
namespace {

constexpr std::size_t kLines = kBoxBlurLines;

// Up to 8x8 bytes. Inlined, so that known sizes become plain loads and stores.
__attribute__((always_inline)) inline void transpose_block(const std::uint8_t* from, std::size_t from_stride,
                                                           std::size_t width, std::size_t height, std::uint8_t* to,
                                                           std::size_t to_stride) noexcept {
    std::uint64_t words[8] = {};
    for (std::size_t i = 0; i < height; ++i) std::memcpy(&words[i], from + i * from_stride, width);
    transpose_8x8(words);
    for (std::size_t i = 0; i < width; ++i) std::memcpy(to + i * to_stride, &words[i], height);
}

// Pixel (x, y) of `from` becomes pixel (y, x) of `to`.
void transpose(const std::uint8_t* from, std::size_t from_stride, std::size_t width, std::size_t height,
               std::uint8_t* to, std::size_t to_stride) noexcept {
    for (std::size_t y = 0; y < height; y += 8) {
        const std::size_t rows = std::min<std::size_t>(8, height - y);
        for (std::size_t x = 0; x < width; x += 8) {
            const std::size_t columns = std::min<std::size_t>(8, width - x);
            const std::uint8_t* block = from + y * from_stride + x;
            std::uint8_t* transposed = to + x * to_stride + y;
            if (rows == 8 && columns == 8) {
                transpose_block(block, from_stride, 8, 8, transposed, to_stride);
            } else {
                transpose_block(block, from_stride, columns, rows, transposed, to_stride);
            }
        }
    }
}

void copy_rows(const std::uint8_t* from, std::size_t from_stride, std::size_t width, std::size_t height,
               std::uint8_t* to, std::size_t to_stride) noexcept {
    for (std::size_t y = 0; y < height; ++y) std::memcpy(to + y * to_stride, from + y * from_stride, width);
}

// A plane, or some rows or columns of it.
struct Plane {
    std::uint8_t* pixels;
    std::size_t stride;
    std::size_t width;
    std::size_t height;
};

Plane plane_of(const PlanarImageView& image, int plane) noexcept {
    return {image.planes[plane], image.row_stride_bytes, static_cast<std::size_t>(image.width),
            static_cast<std::size_t>(image.height)};
}

// Filters groups of lines from one memory to another and back.
class LineFilter {
  public:
    // `memory` has room for two groups of lines of `length` pixels.
    LineFilter(float radius, std::int32_t passes, BoxBlurFunction kernel, std::uint8_t* memory,
               std::size_t length) noexcept
        : box_(box_weights(radius)),
          passes_(passes),
          kernel_(kernel),
          length_(length),
          lines_(memory),
          other_(memory + kLines * length) {}

    std::uint8_t* lines() const noexcept { return lines_; }

    void run() noexcept {
        for (std::int32_t pass = 0; pass < passes_; ++pass) {
            kernel_(box_, lines_, static_cast<std::int32_t>(length_), other_);
            std::swap(lines_, other_);
        }
    }

  private:
    BoxWeights box_;
    std::int32_t passes_;
    BoxBlurFunction* kernel_;
    std::size_t length_;
    std::uint8_t* lines_;
    std::uint8_t* other_;
};

void filter_rows(LineFilter filter, const Plane& from, const Plane& to) noexcept {
    for (std::size_t y = 0; y < from.height; y += kLines) {
        const std::size_t count = std::min(kLines, from.height - y);
        transpose(from.pixels + y * from.stride, from.stride, from.width, count, filter.lines(), kLines);
        filter.run();
        transpose(filter.lines(), kLines, count, to.width, to.pixels + y * to.stride, to.stride);
    }
}

// `from` may be `to`.
void filter_columns(LineFilter filter, const Plane& from, const Plane& to) noexcept {
    for (std::size_t x = 0; x < from.width; x += kLines) {
        const std::size_t count = std::min(kLines, from.width - x);
        copy_rows(from.pixels + x, from.stride, count, from.height, filter.lines(), kLines);
        filter.run();
        copy_rows(filter.lines(), kLines, count, to.height, to.pixels + x, to.stride);
    }
}

}  // namespace

BoxWeights box_weights(float radius) noexcept {
    constexpr std::uint32_t kOne = 1U << kBoxWeightBits;
    const auto reach = static_cast<std::int32_t>(radius);
    const auto weight = static_cast<std::uint32_t>(static_cast<float>(kOne) / (radius * 2.0F + 1.0F));
    return {reach, weight, (kOne - static_cast<std::uint32_t>(reach * 2 + 1) * weight) / 2};
}

// Pillow computes some of the sums in float32 and others in double; so does this.
float gaussian_box_radius(float sigma, std::int32_t passes) noexcept {
    const float variance = sigma * sigma / static_cast<float>(passes);
    const auto length = static_cast<float>(std::sqrt(12.0 * static_cast<double>(variance) + 1.0));
    const auto whole = static_cast<float>(std::floor((static_cast<double>(length) - 1.0) / 2.0));
    const float above = (2.0F * whole + 1.0F) * (whole * (whole + 1.0F) - 3.0F * variance);
    const float below = 6.0F * (variance - (whole + 1.0F) * (whole + 1.0F));
    return whole + above / below;
}

Status box_blur(float x_radius, float y_radius, std::int32_t passes, BoxBlurFunction kernel,
                const PlanarImageView& source, const PlanarImageView& destination, AlignedBuffer* scratch) noexcept {
    const auto width = static_cast<std::size_t>(source.width);
    const auto height = static_cast<std::size_t>(source.height);
    const std::size_t bytes = 2 * kLines * std::max(width, height);
    if (Status status = scratch->reserve(bytes); !status.is_ok()) return status;
    std::uint8_t* memory = scratch->data();
    std::memset(memory, 0, bytes);  // unused lines are filtered, too
    const bool has_x = x_radius > 0.0F;
    const bool has_y = y_radius > 0.0F;
    for (int plane = 0; plane < 3; ++plane) {
        const Plane from = plane_of(source, plane);
        const Plane to = plane_of(destination, plane);
        if (has_x) filter_rows({x_radius, passes, kernel, memory, width}, from, to);
        if (has_y) filter_columns({y_radius, passes, kernel, memory, height}, has_x ? to : from, to);
        if (!has_x && !has_y) copy_rows(from.pixels, from.stride, width, height, to.pixels, to.stride);
    }
    return Status::ok();
}

}  // namespace fastload

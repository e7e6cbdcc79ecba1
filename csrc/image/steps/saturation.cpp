#include "image/steps/saturation.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "image/pixels/blend.h"

namespace fastload {
namespace {

constexpr std::size_t kBlockColumns = 256;

// Passes on blocks of a row's three channels with their luma: the compiler vectorises loops over one channel each.
template <typename Function>
void for_each_block(const PlanarImageView& pixels, Function function) noexcept {
    const auto width = static_cast<std::size_t>(pixels.width);
    for (std::size_t y = 0; y < static_cast<std::size_t>(pixels.height); ++y) {
        for (std::size_t x = 0; x < width; x += kBlockColumns) {
            const std::size_t count = width - x < kBlockColumns ? width - x : kBlockColumns;
            const std::size_t offset = y * pixels.row_stride_bytes + x;
            std::uint8_t* const channels[3] = {pixels.planes[0] + offset, pixels.planes[1] + offset,
                                               pixels.planes[2] + offset};
            std::uint8_t gray[kBlockColumns];
            for (std::size_t i = 0; i < count; ++i) gray[i] = luma(channels[0][i], channels[1][i], channels[2][i]);
            function(gray, channels, count);
        }
    }
}

}  // namespace

void Saturation::change(const PlanarImageView& pixels) const noexcept {
    const auto blend_factor = static_cast<float>(factor);
    for_each_block(pixels, [blend_factor](const std::uint8_t* gray, std::uint8_t* const* channels, std::size_t count) {
        for (int plane = 0; plane < 3; ++plane) {
            std::uint8_t* channel = channels[plane];
            for (std::size_t i = 0; i < count; ++i) channel[i] = blend(gray[i], channel[i], blend_factor);
        }
    });
}

void Luma::change(const PlanarImageView& pixels) const noexcept {
    for_each_block(pixels, [](const std::uint8_t* gray, std::uint8_t* const* channels, std::size_t count) {
        for (int plane = 0; plane < 3; ++plane) std::memcpy(channels[plane], gray, count);
    });
}

}  // namespace fastload

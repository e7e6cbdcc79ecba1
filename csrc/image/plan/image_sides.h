// Limits of image sizes.
#pragma once

#include <cstdint>
#include <optional>

#include "base/image_view.h"

namespace fastload {

// The largest width or height of anything a user asks for: the most a JPEG can have.
constexpr std::int32_t kMaxImageSide = 65535;
// The largest side of a source, which need not be a JPEG, and of an image between two steps. Resize(256) makes 76800
// columns of a 300x1 image, which torchvision accepts; beyond this limit it would take gigabytes.
constexpr std::int32_t kMaxResizedSide = 1 << 20;

// A requested size; no image need have it.
struct LongSize {
    std::int64_t width = 0;
    std::int64_t height = 0;

    constexpr LongSize(std::int64_t wanted_width, std::int64_t wanted_height) noexcept
        : width(wanted_width), height(wanted_height) {}
    constexpr LongSize(ImageSize size) noexcept : width(size.width), height(size.height) {}

    // True if an image between two steps can have this size.
    constexpr bool is_possible() const noexcept {
        return width >= 1 && width <= kMaxResizedSide && height >= 1 && height <= kMaxResizedSide;
    }
    // Only for a possible size.
    constexpr ImageSize as_image_size() const noexcept {
        return {static_cast<std::int32_t>(width), static_cast<std::int32_t>(height)};
    }
};

// The size after a draw has chosen one of two sizes; nothing if they differ.
constexpr std::optional<ImageSize> common_size(std::optional<ImageSize> a, std::optional<ImageSize> b) noexcept {
    const bool is_same = a && b && a->width == b->width && a->height == b->height;
    return is_same ? a : std::nullopt;
}

}  // namespace fastload

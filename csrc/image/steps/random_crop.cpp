#include "image/steps/random_crop.h"

#include <algorithm>

namespace fastload {
namespace {

std::int32_t draw_offset(std::int32_t room, DrawSource* draws) noexcept {
    return static_cast<std::int32_t>(draws->below(static_cast<std::uint32_t>(room) + 1));
}

}  // namespace

Padding padding_to_crop(ImageSize image, ImageSize crop, const RandomCropRule& rule) noexcept {
    Padding padding = rule.filling;
    padding.left = padding.right = rule.is_padded_if_needed ? std::max(crop.width - image.width, 0) : 0;
    padding.top = padding.bottom = rule.is_padded_if_needed ? std::max(crop.height - image.height, 0) : 0;
    return padding;
}

Region choose_random_crop(ImageSize image, ImageSize crop, TorchvisionVersion version, DrawSource* draws) noexcept {
    const std::int32_t rows = image.height - crop.height;
    const std::int32_t columns = image.width - crop.width;
    // v1 draws for both sides where one has room, v2 only for those that have.
    const bool is_both = version == TorchvisionVersion::kV1 && (rows > 0 || columns > 0);
    Region box{0, 0, crop.width, crop.height};
    if (is_both || rows > 0) box.top = draw_offset(rows, draws);
    if (is_both || columns > 0) box.left = draw_offset(columns, draws);
    return box;
}

}  // namespace fastload

#include "image/steps/random_crop.h"

#include <algorithm>

#include "image/steps/crop.h"
#include "image/steps/pad.h"

namespace fastload {
namespace {

std::int32_t draw_offset(std::int32_t room, DrawSource* draws) noexcept {
    return static_cast<std::int32_t>(draws->below(static_cast<std::uint32_t>(room) + 1));
}

}  // namespace

Padding RandomCrop::padding_of(ImageSize image) const noexcept {
    const std::int32_t columns = pad_if_needed ? std::max(width - image.width, 0) : 0;
    const std::int32_t rows = pad_if_needed ? std::max(height - image.height, 0) : 0;
    return {columns, rows, columns, rows, padding_mode, fill};
}

Status RandomCrop::resolve(DrawSource* draws, Resolver* resolver) const noexcept {
    const Padding padding = padding_of(resolver->size());
    if (!padding.is_empty()) {
        if (Status status = pad_image(padding, resolver); !status.is_ok()) return status;
    }
    const std::int32_t rows = resolver->size().height - height;
    const std::int32_t columns = resolver->size().width - width;
    if (rows < 0 || columns < 0) {
        return {StatusCode::kInvalidGeometry, 0, 0, "a random crop is larger than the image"};
    }
    // If one side has room, v1 draws for both sides, v2 only for sides that have room.
    const bool is_both = family == TorchvisionFamily::kV1 && (rows > 0 || columns > 0);
    Region box{0, 0, width, height};
    if (is_both || rows > 0) box.top = draw_offset(rows, draws);
    if (is_both || columns > 0) box.left = draw_offset(columns, draws);
    crop_image({box}, resolver);
    return Status::ok();
}

}  // namespace fastload

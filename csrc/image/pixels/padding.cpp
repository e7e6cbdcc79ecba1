#include "image/pixels/padding.h"

#include <algorithm>

#include "image/pixels/fill_image.h"
#include "image/pixels/nearest_axis.h"

namespace fastload {
namespace {

std::int32_t modulo(std::int32_t value, std::int32_t divisor) noexcept {
    const std::int32_t rest = value % divisor;
    return rest < 0 ? rest + divisor : rest;
}

// Which pixel of an axis of `length` is shown at `position`, which may lie outside; -1 where none is.
std::int32_t shown_position(std::int32_t position, std::int32_t length, PaddingMode mode) noexcept {
    if (position >= 0 && position < length) return position;
    if (mode == PaddingMode::kConstant) return -1;
    if (mode == PaddingMode::kEdge || length == 1) return std::clamp(position, 0, length - 1);
    // The outermost pixel stands once between an image and its mirror image, or twice.
    const std::int32_t repeated = mode == PaddingMode::kReflect ? 0 : 1;
    const std::int32_t phase = modulo(position, 2 * (length - 1 + repeated));
    return phase < length ? phase : 2 * (length - 1) + repeated - phase;
}

}  // namespace

Status write_padded(const PlanarImageView& source, const Padding& padding, const PlanarImageView& destination,
                    AlignedBuffer* scratch) noexcept {
    AxisPositions positions;
    if (Status status = reserve_positions({destination.width, destination.height}, scratch, &positions);
        !status.is_ok()) {
        return status;
    }
    for (std::int32_t x = 0; x < destination.width; ++x) {
        positions.columns[x] = shown_position(x - padding.left, source.width, padding.mode);
    }
    for (std::int32_t y = 0; y < destination.height; ++y) {
        positions.rows[y] = shown_position(y - padding.top, source.height, padding.mode);
    }
    if (padding.mode == PaddingMode::kConstant) fill_image(padding.fill, destination);
    gather_pixels(source, positions, destination);
    return Status::ok();
}

}  // namespace fastload

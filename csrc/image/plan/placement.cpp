#include "image/plan/placement.h"

#include <algorithm>

namespace fastload {
namespace {

// The part of [start, start + length) that lies inside [0, limit).
struct Overlap {
    std::int32_t cut_before;
    std::int32_t length;
};

Overlap overlap(std::int32_t start, std::int32_t length, std::int32_t limit) noexcept {
    const std::int32_t begin = std::max(start, 0);
    const std::int32_t end = std::min(start + length, limit);
    return {begin - start, std::max(end - begin, 0)};
}

}  // namespace

void Placement::crop(const PaddedCrop& crop) noexcept {
    left -= crop.inside.left;
    top -= crop.inside.top;
    const Overlap x = overlap(left, source.width, crop.inside.width);
    const Overlap y = overlap(top, source.height, crop.inside.height);
    // A mirrored source loses pixels on its other side.
    source.left += is_mirrored ? source.width - x.cut_before - x.length : x.cut_before;
    source.top += y.cut_before;
    source.width = x.length;
    source.height = y.length;
    left = std::max(left, 0) + crop.pad_left;
    top = std::max(top, 0) + crop.pad_top;
    size = {crop.width(), crop.height()};
}

bool Placement::find(const Region& region, Region* stored) const noexcept {
    *stored = {region.left - left, region.top - top, region.width, region.height};
    if (is_mirrored || !stored->lies_inside(source.width, source.height)) return false;
    stored->left += source.left;
    stored->top += source.top;
    return true;
}

void Placement::flip() noexcept {
    left = size.width - left - source.width;
    is_mirrored = !is_mirrored;
}

}  // namespace fastload

#include "image/steps/box_resize.h"

#include "image/plan/argument_checks.h"
#include "image/steps/resize.h"

namespace fastload {
namespace {

// True if it starts at 0 or later and is not empty. A NaN compares false.
bool is_range(float begin, float end) noexcept { return begin >= 0.0F && begin < end; }

}  // namespace

std::string BoxResize::check() const {
    const auto [left, top, right, bottom] = box;
    if (!is_range(left, right)) return sentence("box", "0 <= left < right", pair_text(left, right));
    if (!is_range(top, bottom)) return sentence("box", "0 <= top < bottom", pair_text(top, bottom));
    if (interpolation == Interpolation::kNearest) return sentence("interpolation", "a filter", name_of(interpolation));
    return first_of(check_side("height", height), check_side("width", width));
}

Status BoxResize::resolve(DrawSource*, Resolver* resolver) const noexcept {
    const ImageSize from = resolver->size();
    const auto [left, top, right, bottom] = box;
    // Every image side is exact in float32.
    if (right > static_cast<float>(from.width) || bottom > static_cast<float>(from.height)) {
        return {StatusCode::kInvalidGeometry, 0, 0, "the box of a resize does not lie inside of the image"};
    }
    const ResizeShape shape(from, {left, top, right, bottom}, {width, height});
    if (shape.has_whole_width() && shape.has_whole_height()) {
        resize_image(shape.to, interpolation, resolver);
    } else {
        filter_image(shape, interpolation, resolver);
    }
    return Status::ok();
}

}  // namespace fastload

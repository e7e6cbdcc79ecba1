#include "image/steps/fixed_crop.h"

#include "image/plan/argument_checks.h"
#include "image/steps/crop.h"

namespace fastload {

std::string FixedCrop::check() const {
    if (left < 0) return sentence("left", "at least 0", left);
    if (top < 0) return sentence("top", "at least 0", top);
    return first_of(check_side("height", height), check_side("width", width));
}

Status FixedCrop::resolve(DrawSource*, Resolver* resolver) const noexcept {
    const Region box = {left, top, width, height};
    if (!box.lies_inside(resolver->size().width, resolver->size().height)) {
        return {StatusCode::kInvalidGeometry, 0, 0, "the box of a crop does not lie inside of the image"};
    }
    crop_image({box, 0, 0, 0, 0}, resolver);
    return Status::ok();
}

}  // namespace fastload

#include "image/steps/center_crop.h"

#include "image/plan/argument_checks.h"
#include "image/plan/python_round.h"
#include "image/steps/crop.h"

namespace fastload {
namespace {

struct AxisCrop {
    std::int32_t start;
    std::int32_t length;
    std::int32_t pad_before;
    std::int32_t pad_after;
};

AxisCrop center_axis(std::int32_t length, std::int32_t wanted) noexcept {
    if (wanted > length) return {0, length, (wanted - length) / 2, (wanted - length + 1) / 2};
    return {static_cast<std::int32_t>(round_half_even((length - wanted) / 2.0)), wanted, 0, 0};
}

}  // namespace

PaddedCrop center_crop(ImageSize image, ImageSize crop) noexcept {
    const AxisCrop x = center_axis(image.width, crop.width);
    const AxisCrop y = center_axis(image.height, crop.height);
    return {{x.start, y.start, x.length, y.length}, x.pad_before, y.pad_before, x.pad_after, y.pad_after};
}

std::string CenterCrop::check() const { return first_of(check_side("height", height), check_side("width", width)); }

Status CenterCrop::resolve(DrawSource*, Resolver* resolver) const noexcept {
    crop_image(center_crop(resolver->size(), {width, height}), resolver);
    return Status::ok();
}

}  // namespace fastload

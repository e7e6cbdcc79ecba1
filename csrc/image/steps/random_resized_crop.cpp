#include "image/steps/random_resized_crop.h"

#include <cmath>

#include "image/plan/argument_checks.h"
#include "image/steps/crop.h"
#include "image/steps/resize.h"

namespace fastload {
namespace {

Region central_box(ImageSize image, const RandomBoxRule& rule) noexcept {
    const double image_ratio = static_cast<double>(image.width) / image.height;
    Region box{0, 0, image.width, image.height};
    if (image_ratio < rule.ratio[0]) {
        box.height = static_cast<std::int32_t>(std::nearbyint(image.width / rule.ratio[0]));
    } else if (image_ratio > rule.ratio[1]) {
        box.width = static_cast<std::int32_t>(std::nearbyint(image.height * rule.ratio[1]));
    }
    box.left = (image.width - box.width) / 2;
    box.top = (image.height - box.height) / 2;
    return box;
}

}  // namespace

Region choose_random_box(ImageSize image, const RandomBoxRule& rule, DrawSource* draws) noexcept {
    for (int attempt = 0; attempt < 10; ++attempt) {
        const auto [width, height] = draw_box_sides(image, rule, draws);
        if (!(0.0 < width && width <= image.width && 0.0 < height && height <= image.height)) continue;
        return draw_box_place(image, width, height, draws);
    }
    return central_box(image, rule);
}

std::string RandomResizedCrop::check() const { return first_of(SizedStep::check(), check_box_rule(*this)); }

Status RandomResizedCrop::resolve(DrawSource* draws, Resolver* resolver) const noexcept {
    const Region box = choose_random_box(resolver->size(), *this, draws);
    if (box.width == 0 || box.height == 0) {
        return {StatusCode::kInvalidGeometry, 0, 0, "a random crop of this image is empty"};
    }
    crop_image({box}, resolver);
    resize_image({width, height}, interpolation, resolver);
    return Status::ok();
}

std::shared_ptr<Step> RandomResizedCrop::with_torch_exp(const FindTorchExp& find) const {
    auto copy = std::make_shared<RandomResizedCrop>(*this);
    copy->log_ratio.torch_exp = find(log_ratio.from, log_ratio.to);
    return copy;
}

}  // namespace fastload

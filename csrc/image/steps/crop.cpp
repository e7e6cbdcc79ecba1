#include "image/steps/crop.h"

#include <algorithm>
#include <cmath>

#include "image/plan/argument_checks.h"
#include "image/plan/described_image.h"
#include "image/plan/working_image.h"
#include "image/steps/resize.h"

namespace fastload {
namespace {

class Crop final : public Operation {
  public:
    explicit Crop(const PaddedCrop& crop) noexcept : crop_(crop) {}

    Status run(WorkingImage* image) const noexcept override {
        image->crop(crop_);
        return Status::ok();
    }
    bool describe(DescribedImage* image) const noexcept override {
        image->crop(crop_);
        return true;
    }
    OperationReport report() const override {
        const Region& inside = crop_.inside;
        return {"crop",         inside.left,   inside.top,      inside.width,    inside.height,
                crop_.pad_left, crop_.pad_top, crop_.pad_right, crop_.pad_bottom};
    }

  private:
    PaddedCrop crop_;
};

struct AxisCrop {
    std::int32_t start;
    std::int32_t length;
    std::int32_t pad_before;
    std::int32_t pad_after;
};

AxisCrop center_axis(std::int32_t length, std::int32_t wanted) noexcept {
    if (wanted > length) return {0, length, (wanted - length) / 2, (wanted - length + 1) / 2};
    return {static_cast<std::int32_t>(std::nearbyint((length - wanted) / 2.0)), wanted, 0, 0};
}

std::int32_t draw_offset(std::int32_t room, DrawSource* draws) noexcept {
    return static_cast<std::int32_t>(draws->below(static_cast<std::uint32_t>(room) + 1));
}

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

void crop_image(const PaddedCrop& crop, Resolver* resolver) noexcept {
    const ImageSize size = resolver->size();
    const bool is_whole = crop.inside.width == size.width && crop.inside.height == size.height &&
                          crop.width() == size.width && crop.height() == size.height;
    if (is_whole) return;
    resolver->make(Crop(crop));
    resolver->crop(crop);
    if (crop.is_padded()) resolver->drop_info();
}

PaddedCrop center_crop(ImageSize image, ImageSize crop) noexcept {
    const AxisCrop x = center_axis(image.width, crop.width);
    const AxisCrop y = center_axis(image.height, crop.height);
    return {{x.start, y.start, x.length, y.length}, x.pad_before, y.pad_before, x.pad_after, y.pad_after};
}

Status CenterCrop::resolve(DrawSource*, Resolver* resolver) const noexcept {
    crop_image(center_crop(resolver->size(), {width, height}), resolver);
    return Status::ok();
}

std::string FixedCrop::check() const {
    if (left < 0) return sentence("left", "at least 0", left);
    if (top < 0) return sentence("top", "at least 0", top);
    return SizedStep::check();
}

Status FixedCrop::resolve(DrawSource*, Resolver* resolver) const noexcept {
    const Region box = {left, top, width, height};
    if (!box.lies_inside(resolver->size().width, resolver->size().height)) {
        return {StatusCode::kInvalidGeometry, 0, 0, "the box of a crop does not lie inside of the image"};
    }
    crop_image({box, 0, 0, 0, 0}, resolver);
    return Status::ok();
}

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
    copy->torch_exp = find(log_ratio.first, log_ratio.second);
    return copy;
}

}  // namespace fastload

#include "image/plan/resolver.h"

#include <algorithm>

namespace fastload {
namespace {

// A crop that shows only padding needs no pixel; some pixel must be asked for, and crops cut it away again.
Region some_pixel_of(const Region& region) noexcept {
    return region.width == 0 || region.height == 0 ? Region{0, 0, 1, 1} : region;
}

// Brightness and contrast are blends with a new image, saturation and sharpness with one made of this one. Hue and grey
// go through NumPy.
bool keeps_info(const PixelOp& op) noexcept {
    switch (op.kind) {
        case PixelOpKind::kBrightness:
        case PixelOpKind::kContrast:
        case PixelOpKind::kHue:
        case PixelOpKind::kGrayscale:
            return false;
        default:
            return true;
    }
}

}  // namespace

Resolver::Resolver(ImageSize source, ResolvedTransform* out) noexcept
    : out_(out), placement_(Placement::of_whole(source)) {
    out_->list.clear();
    out_->source_size = source;
    out_->keeps_info = true;
}

void Resolver::crop(const PaddedCrop& crop) noexcept {
    const bool is_whole = crop.inside.width == size().width && crop.inside.height == size().height &&
                          crop.width() == size().width && crop.height() == size().height;
    if (is_whole) return;
    append(ResolvedKind::kCrop).crop = crop;
    if (crop.is_padded()) out_->keeps_info = false;
    placement_.crop(crop);
}

void Resolver::resize(ImageSize to, Interpolation interpolation) noexcept {
    if (to.width == size().width && to.height == size().height) return;
    ResolvedStep& step = append(ResolvedKind::kResize);
    step.size = to;
    step.window = {0, 0, to.width, to.height};
    step.interpolation = interpolation;
    if (interpolation == Interpolation::kNearest) return move_pixels(to);
    if (resize_position_ != kNone) note_needed_pixels();
    resize_position_ = out_->list.size() - 1;
    resize_input_ = placement_;
    placement_ = Placement::of_whole(to);
}

void Resolver::flip_horizontally() noexcept {
    append(ResolvedKind::kHorizontalFlip);
    placement_.flip();
}

void Resolver::flip_vertically() noexcept {
    append(ResolvedKind::kVerticalFlip);
    move_pixels(size());
}

Status Resolver::pad(const Padding& padding) noexcept {
    out_->keeps_info = false;
    if (padding.is_empty()) return Status::ok();
    const std::int64_t width = std::int64_t{size().width} + padding.left + padding.right;
    const std::int64_t height = std::int64_t{size().height} + padding.top + padding.bottom;
    if (!is_resized_side(width) || !is_resized_side(height)) {
        return {StatusCode::kInvalidGeometry, 0, 0,
                "a side of the padded image is not in 1..1048576, as native images need (docs/transforms.md)"};
    }
    append(ResolvedKind::kPad).padding = padding;
    if (padding.is_zeros()) {
        placement_.crop(zeros_around(size(), padding));
    } else {
        move_pixels({static_cast<std::int32_t>(width), static_cast<std::int32_t>(height)});
    }
    return Status::ok();
}

void Resolver::run(const PixelOp& op) noexcept {
    if (op.kind == PixelOpKind::kIdentity) return;
    append(ResolvedKind::kPixelOp).op = op;
    if (!keeps_info(op)) out_->keeps_info = false;
    move_pixels(size_after(op, size()));
}

Status Resolver::blur(const GaussianBlur& blur, float sigma) noexcept {
    if (!fits_blur(blur, size())) {
        return {StatusCode::kInvalidGeometry, 0, 0, "a blur reaches over more than the image"};
    }
    out_->keeps_info = false;
    ResolvedStep& step = append(ResolvedKind::kGaussianBlur);
    step.blur = &blur;
    step.sigma = sigma;
    move_pixels(size());
    return Status::ok();
}

void Resolver::erase(const Region& box, Span<const std::uint8_t> value) noexcept {
    ResolvedStep& step = append(ResolvedKind::kErase);
    step.erased = box;
    step.erase_value_bytes = value.size();
    std::copy(value.begin(), value.end(), step.erase_value.begin());
}

void Resolver::finish() noexcept {
    note_needed_pixels();
    out_->output_size = size();
}

ResolvedStep& Resolver::append(ResolvedKind kind) noexcept {
    ResolvedStep& step = out_->list.emplace_back();  // there is room: see the plan
    step.kind = kind;
    return step;
}

void Resolver::move_pixels(ImageSize size) noexcept {
    note_needed_pixels();
    placement_ = Placement::of_whole(size);
}

// Note [windows]
// A crop behind a resize throws pixels away that need not be made: the usual evaluation keeps two thirds of them. So a
// resize makes a window of its result, and where it is the first step that moves pixels, the decoder delivers what that
// window reads. Every pixel depends on its own weights alone, so the others do not change.
void Resolver::note_needed_pixels() noexcept {
    Region needed = some_pixel_of(placement_.source);
    if (resize_position_ != kNone) {
        ResolvedStep& step = out_->list[resize_position_];
        resize_position_ = kNone;
        step.window = needed;
        const Region input = resize_source(resize_input_.size, step.size, step.window, step.interpolation);
        if (!resize_input_.find(input, &needed)) needed = some_pixel_of(resize_input_.source);
    }
    if (has_source_region_) return;
    has_source_region_ = true;
    out_->source_region = needed;
}

}  // namespace fastload

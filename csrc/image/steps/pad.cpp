#include "image/steps/pad.h"

#include <algorithm>

#include "image/pixels/nearest_axis.h"
#include "image/plan/argument_checks.h"
#include "image/plan/described_image.h"
#include "image/plan/working_image.h"

namespace fastload {
namespace {

std::int32_t modulo(std::int32_t value, std::int32_t divisor) noexcept {
    const std::int32_t rest = value % divisor;
    return rest < 0 ? rest + divisor : rest;
}

// The pixel of an axis of `length` that is shown at `position`, which may lie outside; -1 if there is none.
std::int32_t shown_position(std::int32_t position, std::int32_t length, PaddingMode mode) noexcept {
    if (position >= 0 && position < length) return position;
    if (mode == PaddingMode::kConstant) return -1;
    if (mode == PaddingMode::kEdge || length == 1) return std::clamp(position, 0, length - 1);
    // The outermost pixel appears once between an image and its mirror image, or twice.
    const std::int32_t repeated = mode == PaddingMode::kReflect ? 0 : 1;
    const std::int32_t phase = modulo(position, 2 * (length - 1 + repeated));
    return phase < length ? phase : 2 * (length - 1) + repeated - phase;
}

LongSize padded_size(ImageSize image, const Padding& padding) noexcept {
    return {std::int64_t{image.width} + padding.left + padding.right,
            std::int64_t{image.height} + padding.top + padding.bottom};
}

PaddedCrop zeros_around(ImageSize image, const Padding& padding) noexcept {
    return {{0, 0, image.width, image.height}, padding.left, padding.top, padding.right, padding.bottom};
}

class PadImage final : public Operation {
  public:
    explicit PadImage(const Padding& padding) noexcept : padding_(padding) {}

    Status run(WorkingImage* image) const noexcept override {
        if (padding_.is_zeros()) {
            image->crop(zeros_around(image->size(), padding_));
            return Status::ok();
        }
        return image->remake(padded_size(image->size(), padding_).as_image_size(),
                             [&](const PlanarImageView& source, const PlanarImageView& destination) {
                                 return write_padded(source, padding_, destination, &image->workspace().positions);
                             });
    }
    bool describe(DescribedImage* image) const noexcept override {
        if (padding_.is_zeros()) image->crop(zeros_around(image->size(), padding_));
        return padding_.is_zeros();
    }
    OperationReport report() const override {
        return {"pad",           padding_.left,          padding_.top, padding_.right,
                padding_.bottom, name_of(padding_.mode), padding_.fill};
    }

  private:
    Padding padding_;
};

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

Status pad_image(const Padding& padding, Resolver* resolver) noexcept {
    resolver->drop_info();
    if (padding.is_empty()) return Status::ok();
    const LongSize size = padded_size(resolver->size(), padding);
    if (!size.is_possible()) {
        return {StatusCode::kInvalidGeometry, 0, 0,
                "a side of the padded image is not in 1..1048576, as native images need (docs/transforms.md)"};
    }
    resolver->make(PadImage(padding));
    if (padding.is_zeros()) {
        resolver->crop(zeros_around(resolver->size(), padding));
    } else {
        resolver->move_pixels(size.as_image_size());
    }
    return Status::ok();
}

std::string Pad::check() const {
    return first_of(check_side("left", left, 0), check_side("top", top, 0), check_side("right", right, 0),
                    check_side("bottom", bottom, 0));
}

std::optional<LongSize> Pad::size_after(std::optional<ImageSize> before) const {
    return before ? std::optional<LongSize>(padded_size(*before, *this)) : std::nullopt;
}

Status Pad::resolve(DrawSource*, Resolver* resolver) const noexcept { return pad_image(*this, resolver); }

}  // namespace fastload

#include "image/steps/resize.h"

#include <algorithm>

#include "image/pixels/nearest_axis.h"
#include "image/plan/argument_checks.h"
#include "image/plan/described_image.h"
#include "image/plan/working_image.h"

namespace fastload {
namespace {

OperationReport report_resize(ImageSize to, Interpolation interpolation) {
    return {"resize", to.width, to.height, name_of(interpolation)};
}

class NearestResize final : public Operation {
  public:
    explicit NearestResize(ImageSize to) noexcept : to_(to) {}

    Status run(WorkingImage* image) const noexcept override {
        // The last pixel stays inside if a side is below some 10^7.
        return image->remake(to_, [image](const PlanarImageView& source, const PlanarImageView& destination) {
            const AxisScale columns = {0.0, static_cast<double>(source.width) / destination.width};
            const AxisScale rows = {0.0, static_cast<double>(source.height) / destination.height};
            return scale_nearest(source, columns, rows, destination, &image->workspace().positions);
        });
    }
    OperationReport report() const override { return report_resize(to_, Interpolation::kNearest); }

  private:
    ImageSize to_;
};

// With one of the filters.
class FilteredResize final : public PartialOperation {
  public:
    FilteredResize(const ResizeShape& shape, Interpolation interpolation) noexcept
        : shape_(shape), window_{0, 0, shape.to.width, shape.to.height}, interpolation_(interpolation) {}

    Region make_only(const Region& window) noexcept override {
        window_ = window;
        return source();
    }

    // See Note [windows].
    Status run(WorkingImage* image) const noexcept override {
        StripImageView strips;
        if (Status status = image->find_in_strips(source(), &strips); !status.is_ok()) return status;
        return image->resize(strips, shape_, window_, interpolation_);
    }
    bool describe(DescribedImage* image) const noexcept override {
        return image->resize(shape_, window_, interpolation_);
    }
    OperationReport report() const override {
        OperationReport report = report_resize(shape_.to, interpolation_);
        if (shape_.has_whole_width() && shape_.has_whole_height()) return report;
        const auto& [left, top, right, bottom] = shape_.box;
        for (const float edge : {left, top, right, bottom}) report.emplace_back(static_cast<double>(edge));
        return report;
    }

  private:
    Region source() const noexcept { return resize_source(shape_, window_, interpolation_); }

    ResizeShape shape_;
    Region window_;  // the part of the result that is needed
    Interpolation interpolation_;
};

// True if it starts at 0 or later and is not empty. A NaN compares false.
bool is_range(float begin, float end) noexcept { return begin >= 0.0F && begin < end; }

// A resize of an image of shape.from that changes something, with any interpolation but kNearest.
void filter_image(const ResizeShape& shape, Interpolation interpolation, Resolver* resolver) noexcept {
    resolver->move_needed_pixels(&resolver->make(FilteredResize(shape, interpolation)), shape.to);
}

}  // namespace

void resize_image(ImageSize to, Interpolation interpolation, Resolver* resolver) noexcept {
    const ImageSize from = resolver->size();
    if (to.width == from.width && to.height == from.height) return;
    if (interpolation == Interpolation::kNearest) {
        resolver->make(NearestResize(to));
        resolver->move_pixels(to);
    } else {
        filter_image({from, to}, interpolation, resolver);
    }
}

Status Resize::resolve(DrawSource*, Resolver* resolver) const noexcept {
    resize_image({width, height}, interpolation, resolver);
    return Status::ok();
}

LongSize ResizeShorterSide::size_of(ImageSize image) const noexcept {
    const bool is_upright = image.width <= image.height;
    const std::int64_t short_side = std::min(image.width, image.height);
    const std::int64_t long_side = std::max(image.width, image.height);
    std::int64_t new_short = size;
    // Python's int(a * b / c): the quotient of the exact product, rounded to double and then truncated.
    auto new_long = static_cast<std::int64_t>(static_cast<double>(size * long_side) / static_cast<double>(short_side));
    if (max_size && new_long > *max_size) {
        new_short =
            static_cast<std::int64_t>(static_cast<double>(*max_size * new_short) / static_cast<double>(new_long));
        new_long = *max_size;
    }
    return is_upright ? LongSize{new_short, new_long} : LongSize{new_long, new_short};
}

std::string ResizeShorterSide::check() const {
    std::string problem = check_side("size", size);
    if (!problem.empty() || !max_size) return problem;
    problem = check_side("max_size", *max_size);
    if (!problem.empty() || *max_size > size) return problem;
    return sentence("max_size", "greater than size", *max_size);
}

std::optional<LongSize> ResizeShorterSide::size_after(std::optional<ImageSize> before) const {
    return before ? std::optional<LongSize>(size_of(*before)) : std::nullopt;
}

Status ResizeShorterSide::resolve(DrawSource*, Resolver* resolver) const noexcept {
    const LongSize to = size_of(resolver->size());
    if (!to.is_possible()) {
        return {StatusCode::kInvalidGeometry, 0, 0,
                "a side of the resized image is not in 1..1048576, as native images need (docs/transforms.md)"};
    }
    resize_image(to.as_image_size(), interpolation, resolver);
    return Status::ok();
}

std::string BoxResize::check() const {
    const auto [left, top, right, bottom] = box;
    if (!is_range(left, right)) return sentence("box", "0 <= left < right", pair_text(left, right));
    if (!is_range(top, bottom)) return sentence("box", "0 <= top < bottom", pair_text(top, bottom));
    if (interpolation == Interpolation::kNearest) return sentence("interpolation", "a filter", name_of(interpolation));
    return SizedStep::check();
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

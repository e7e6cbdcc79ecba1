#include "image/steps/resize.h"

#include "image/pixels/nearest_axis.h"
#include "image/plan/argument_checks.h"
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
        return image->remake(to_, [image](const PlanarImageView& source, const PlanarImageView& destination) {
            return resize_nearest(source, destination, &image->workspace().positions);
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

void filter_image(const ResizeShape& shape, Interpolation interpolation, Resolver* resolver) noexcept {
    resolver->move_needed_pixels(&resolver->make(FilteredResize(shape, interpolation)), shape.to);
}

std::string Resize::check() const { return first_of(check_side("height", height), check_side("width", width)); }

Status Resize::resolve(DrawSource*, Resolver* resolver) const noexcept {
    resize_image({width, height}, interpolation, resolver);
    return Status::ok();
}

}  // namespace fastload

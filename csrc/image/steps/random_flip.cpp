#include "image/steps/random_flip.h"

#include "image/plan/working_image.h"
#include "image/steps/transpositions.h"

namespace fastload {
namespace {

class HorizontalFlip final : public Operation {
  public:
    Status run(WorkingImage* image) const noexcept override {
        image->flip();
        return Status::ok();
    }
    OperationReport report() const override { return {"hflip"}; }
};

class VerticalFlip final : public Operation {
  public:
    Status run(WorkingImage* image) const noexcept override {
        return image->remake(image->size(), [](const PlanarImageView& source, const PlanarImageView& destination) {
            flip_vertically(source, destination);
            return Status::ok();
        });
    }
    OperationReport report() const override { return {"vflip"}; }
};

}  // namespace

Status RandomHorizontalFlip::resolve(DrawSource* draws, Resolver* resolver) const noexcept {
    if (happens(draws)) {
        resolver->make(HorizontalFlip());
        resolver->flip();
    }
    return Status::ok();
}

Status RandomVerticalFlip::resolve(DrawSource* draws, Resolver* resolver) const noexcept {
    if (happens(draws)) {
        resolver->make(VerticalFlip());
        resolver->move_pixels(resolver->size());
    }
    return Status::ok();
}

}  // namespace fastload

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

}  // namespace

Status RandomHorizontalFlip::resolve(DrawSource* draws, Resolver* resolver) const noexcept {
    if (happens(draws)) {
        resolver->make(HorizontalFlip());
        resolver->flip();
    }
    return Status::ok();
}

Status RandomVerticalFlip::resolve(DrawSource* draws, Resolver* resolver) const noexcept {
    if (happens(draws)) list_made_op(VerticalFlip(), resolver);
    return Status::ok();
}

}  // namespace fastload

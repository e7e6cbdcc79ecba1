#include "image/steps/crop.h"

#include "image/plan/working_image.h"

namespace fastload {
namespace {

class Crop final : public Operation {
  public:
    explicit Crop(const PaddedCrop& crop) noexcept : crop_(crop) {}

    Status run(WorkingImage* image) const noexcept override {
        image->crop(crop_);
        return Status::ok();
    }
    OperationReport report() const override {
        const Region& inside = crop_.inside;
        return {"crop",         inside.left,   inside.top,      inside.width,    inside.height,
                crop_.pad_left, crop_.pad_top, crop_.pad_right, crop_.pad_bottom};
    }

  private:
    PaddedCrop crop_;
};

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

}  // namespace fastload

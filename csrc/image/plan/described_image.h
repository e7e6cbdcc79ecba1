// A sample that a device makes of the decoded image: what its operations come to.
#pragma once

#include <cstdint>
#include <optional>

#include "base/image_view.h"
#include "device/scan_wire.h"
#include "image/plan/placement.h"
#include "image/plan/resolved_transform.h"
#include "image/resize/resize_plan.h"

namespace fastload {

// An image between two operations, as a part of the decoded one, at most one resize of that, and where its result lies.
class DescribedImage {
  public:
    // Operations ask for no more than `region` of the decoded image.
    DescribedImage(ImageSize source, const Region& region) noexcept
        : region_(region), placement_{source, {0, 0, region.width, region.height}, region.left, region.top, false} {}

    ImageSize size() const noexcept { return placement_.size; }
    void crop(const PaddedCrop& crop) noexcept { placement_.crop(crop); }
    void flip() noexcept { placement_.flip(); }

    // Resizes by `shape` and `interpolation`, limited to `window` of the result. False if a device cannot: this is the
    // second resize, or it reads pixels that are not the decoded image's.
    bool resize(const ResizeShape& shape, const Region& window, Interpolation interpolation) noexcept;

    // Returns the part of the decoded image that is needed, and sets what the head says of the rest. False if a device
    // cannot make the image.
    bool describe(ResizeOrder order, Region* needed, ScanHead* head) const noexcept;

  private:
    struct OnlyResize {
        ResizeShape shape;
        Region window;
        Interpolation interpolation;
        // From the image that is resized to the decoded one.
        std::int32_t move_x;
        std::int32_t move_y;
    };

    Region region_;
    Placement placement_;  // of the region's pixels, or of the window's after a resize
    std::optional<OnlyResize> resize_;
};

// Describes a sample's operations so that a device makes them: DescribedImage::describe. False if the host must.
bool describe_for_device(const ResolvedTransform& resolved, ResizeOrder order, Region* needed, ScanHead* head) noexcept;

}  // namespace fastload

#include "image/plan/described_image.h"

namespace fastload {

bool DescribedImage::resize(const ResizeShape& shape, const Region& window, Interpolation interpolation) noexcept {
    const Region source = resize_source(shape, window, interpolation);
    Region stored;
    if (resize_.has_value() || !placement_.find(source, &stored)) return false;
    resize_ = {shape, window, interpolation, region_.left + stored.left - source.left,
               region_.top + stored.top - source.top};
    placement_ = {shape.to, {0, 0, window.width, window.height}, window.left, window.top, false};
    return true;
}

bool DescribedImage::describe(ResizeOrder order, Region* needed, ScanHead* head) const noexcept {
    const Region& shown = placement_.source;
    if (shown.width == 0 || shown.height == 0) return false;
    if (resize_.has_value()) {
        const auto& [shape, window, interpolation, move_x, move_y] = *resize_;
        const Region kept = {window.left + shown.left, window.top + shown.top, shown.width, shown.height};
        if (!describe_resize(shape, kept, interpolation, order, head)) return false;
        *needed = resize_source(shape, kept, interpolation);
        needed->left += move_x;
        needed->top += move_y;
    } else {
        *needed = {region_.left + shown.left, region_.top + shown.top, shown.width, shown.height};
        head->x.count = shown.width;
        head->y.count = shown.height;
    }
    head->placement = {placement_.size.width, placement_.size.height, placement_.left, placement_.top};
    head->is_mirrored = placement_.is_mirrored ? 1 : 0;
    return true;
}

bool describe_for_device(const ResolvedTransform& resolved, ResizeOrder order, Region* needed,
                         ScanHead* head) noexcept {
    DescribedImage image(resolved.source_size, resolved.source_region);
    for (std::size_t i = 0; i < resolved.operations.size(); ++i) {
        if (!resolved.operations[i].describe(&image)) return false;
    }
    return image.describe(order, needed, head);
}

}  // namespace fastload

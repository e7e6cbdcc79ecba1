#include "image/plan/resolver.h"

#include <utility>

namespace fastload {
namespace {

// A crop that shows only padding needs no pixel, but some pixel must be requested; crops remove it again.
Region some_pixel_of(const Region& region) noexcept {
    return region.width == 0 || region.height == 0 ? Region{0, 0, 1, 1} : region;
}

}  // namespace

Resolver::Resolver(ImageSize source, ResolvedTransform* out) noexcept
    : out_(out), placement_(Placement::of_whole(source)) {
    out_->operations.clear();
    out_->source_size = source;
    out_->keeps_info = true;
}

void Resolver::move_pixels(ImageSize size) noexcept {
    note_needed_pixels();
    placement_ = Placement::of_whole(size);
}

void Resolver::move_needed_pixels(PartialOperation* operation, ImageSize size) noexcept {
    if (partial_ != nullptr) note_needed_pixels();
    partial_ = operation;
    partial_input_ = placement_;
    placement_ = Placement::of_whole(size);
}

void Resolver::finish() noexcept {
    note_needed_pixels();
    out_->output_size = size();
}

// Note [windows]
// A crop after a resize drops pixels that need not be made: the usual evaluation keeps two thirds of them. So a resize
// makes only a window of its result; if it is the first step that moves pixels, the decoder delivers only the pixels
// which that window reads. Every pixel depends only on its own weights, so the pixels in the window do not change.
void Resolver::note_needed_pixels() noexcept {
    Region needed = some_pixel_of(placement_.source);
    if (partial_ != nullptr) {
        const Region input = std::exchange(partial_, nullptr)->make_only(needed);
        if (!partial_input_.find(input, &needed)) needed = some_pixel_of(partial_input_.source);
    }
    if (has_source_region_) return;
    has_source_region_ = true;
    out_->source_region = needed;
}

}  // namespace fastload

// torchvision's RandomErasing with a given value.
#pragma once

#include <optional>

#include "base/image_view.h"
#include "base/span.h"
#include "image/plan/output_layout.h"
#include "image/random/draw_source.h"
#include "image/steps/crop.h"

namespace fastload {

// The box for an image: up to ten attempts, each an area and a log aspect ratio (of height to width), until it is
// smaller than the image on both sides; then its row and column. It may be empty. None where no attempt succeeds.
std::optional<Region> choose_erased_box(ImageSize image, const RandomBoxRule& rule, DrawSource* draws) noexcept;

// Overwrites `box` of a finished sample of `size` with `value`, 3 elements.
void erase_elements(const OutputLayout& layout, ImageSize size, const Region& box, Span<const std::uint8_t> value,
                    void* sample) noexcept;

}  // namespace fastload

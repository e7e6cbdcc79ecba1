// The crop operation, which all steps that crop share.
#pragma once

#include "image/plan/placement.h"
#include "image/plan/resolver.h"

namespace fastload {

// A crop of the whole image is left out.
void crop_image(const PaddedCrop& crop, Resolver* resolver) noexcept;

}  // namespace fastload

// The pixels of which views are made.
#pragma once

#include "base/image_view.h"

namespace fastload {

// Pixels in the scratch memory of a worker or in a file's record, until the next ones are loaded.
struct LoadedPixels {
    StripImageView view;
    PlanarImageView rows;  // instead of the view, after the first steps
    Region region;         // of the image, as the file or the reference decoder has it, or as the first steps made it
    bool are_first_steps_done = false;

    ImageSize size() const noexcept { return {region.width, region.height}; }
};

}  // namespace fastload

// What views are made of.
#pragma once

#include "base/image_view.h"

namespace fastload {

// Pixels in the scratch memory of a worker or in a file's record, until the next ones are loaded.
struct LoadedPixels {
    StripImageView view;
    PlanarImageView rows;  // in the place of the view, where the first steps are done
    Region region;         // of the image, as the file or the reference decoder has it, or as the first steps made it
    bool is_behind_first_steps = false;
    bool is_kept = false;  // a record of the rows was made

    ImageSize size() const noexcept { return {region.width, region.height}; }
};

}  // namespace fastload

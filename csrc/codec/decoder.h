// Interface of a decoder: limits, header metadata, and decoding of a region into column strips.
#pragma once

#include <cstdint>

#include "base/image_view.h"
#include "base/span.h"
#include "base/status.h"

namespace fastload {

// A file beyond any of these limits is left to the reference decoder, which warns or raises in its own words.
struct DecodeLimits {
    // Pillow warns above this number (Image.MAX_IMAGE_PIXELS) and raises above twice this number.
    std::uint64_t max_pixels = 89'478'485;
    // Encoders write 10 to 20 scans of a progressive file; many more, each with all blocks, suggest an attack.
    int max_scans = 100;
    // For progressive files, whose coefficients are kept between scans: 128 bytes a block of the decoded region. Enough
    // for 44 million pixels without subsampling.
    std::uint64_t max_coefficient_bytes = std::uint64_t{256} << 20;
};

struct ImageInfo {
    ImageSize size;  // as stored, EXIF orientation not applied
    int components = 0;
};

}  // namespace fastload

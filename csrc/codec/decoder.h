// Interface of a decoder: limits, header facts, and decoding of a region into column strips.
#pragma once

#include <cstdint>

#include "base/image_view.h"
#include "base/span.h"
#include "base/status.h"

namespace fastload {

// Beyond any of these a file is left to the reference decoder, which warns or raises in its own words.
struct DecodeLimits {
    // Pillow warns above this number (Image.MAX_IMAGE_PIXELS) and raises above twice of it.
    std::uint64_t max_pixels = 89'478'485;
    // Encoders write 10 to 20 scans of a progressive file; many more, each of all blocks, are a sign of an attack.
    int max_scans = 100;
    // Of a progressive file, whose coefficients are kept between scans: 128 bytes a block of the decoded region. Enough
    // for 44 million pixels without subsampling.
    std::uint64_t max_coefficient_bytes = std::uint64_t{256} << 20;
};

enum class ImageFormat : std::uint8_t { kUnknown, kJpeg, kPng, kGif, kBmp, kWebp, kTiff };

// "JPEG", "PNG", ...: Pillow's names.
const char* format_name(ImageFormat format) noexcept;

struct ImageInfo {
    ImageFormat format = ImageFormat::kUnknown;
    ImageSize
        size;  // as stored, EXIF orientation not applied; {0, 0} where the header does not say it in a fixed place
    int components = 0;  // JPEG only
};

}  // namespace fastload

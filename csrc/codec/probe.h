// Format and size of an image from its first bytes, without decoding.
#pragma once

#include "base/span.h"
#include "codec/decoder.h"

namespace fastload {

// `head` is the whole file or its beginning; a JPEG's frame header may lie behind long metadata, so give as much as is
// at hand. The format is that of the first bytes, never of a name. The size is {0, 0} where the given bytes do not hold
// it (always for TIFF), or where it does not fit 31 bits. A recognised header is no promise that the file decodes.
ImageInfo probe(ByteSpan head) noexcept;

}  // namespace fastload

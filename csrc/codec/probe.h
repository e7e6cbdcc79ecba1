// Format and size of an image from its first bytes, without decoding.
#pragma once

#include "base/span.h"
#include "codec/decoder.h"

namespace fastload {

// `head` is the whole file or its beginning. A JPEG's frame header may follow long metadata, so pass as much as is at
// hand. The format comes from the first bytes, never from a name. The size is {0, 0} if the given bytes do not hold it
// (always for TIFF), or if it does not fit 31 bits. A recognised header does not promise that the file decodes.
ImageInfo probe(ByteSpan head) noexcept;

}  // namespace fastload

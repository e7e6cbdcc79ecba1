// Finds the end of a scan's entropy-coded data without copying them.
#pragma once

#include <cstddef>

#include "base/span.h"

namespace fastload {

// Returns the position of the first FF that is followed by a byte other than 00: the start of a marker, RSTn included,
// or a fill byte. Returns the number of bytes if there is none.
using FindMarkerFunction = std::size_t(ByteSpan bytes) noexcept;

FindMarkerFunction find_marker_scalar, find_marker_avx2;

}  // namespace fastload

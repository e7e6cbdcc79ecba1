// Finds where the entropy-coded data of a scan end, without copying them.
#pragma once

#include <cstddef>

#include "base/span.h"

namespace fastload {

// The place of the first FF that a byte other than 00 follows: of a marker, RSTn included, or of a fill byte. The
// number of bytes where there is none.
using FindMarkerFunction = std::size_t (*)(ByteSpan bytes) noexcept;

std::size_t find_marker_scalar(ByteSpan bytes) noexcept;
std::size_t find_marker_avx2(ByteSpan bytes) noexcept;

}  // namespace fastload

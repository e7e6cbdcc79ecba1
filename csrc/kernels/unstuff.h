// Removes the byte stuffing from one scan, so that the entropy decoder never looks for FF; or finds its end alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/span.h"

namespace fastload {

enum class ScanEnd : std::uint8_t {
    kMarker,             // a marker other than RSTn; the only regular end
    kDataEnd,            // the bytes ended first
    kRestartOutOfOrder,  // an RSTn whose number is not the next one
    kTooManyRestarts,    // more RSTn than `restart_offsets` has room for
    kFillBytes,          // FF FF: legal before a marker, but left to the reference decoder
};

struct UnstuffedScan {
    std::size_t source_bytes = 0;   // read before the FF that ended the scan
    std::size_t clean_bytes = 0;    // written to `clean`
    std::size_t restart_count = 0;  // written to `restart_offsets`
    ScanEnd end = ScanEnd::kDataEnd;
};

// Copies the entropy-coded bytes at the start of `source` to `clean` without stuffing (FF 00 becomes FF) and without
// RSTn markers. restart_offsets[i] receives the number of clean bytes before the i-th RSTn, which must be RST(i mod 8).
// Stops at any of the ends in `ScanEnd`. `clean` has room for source.size() bytes; the bytes after clean_bytes are
// undefined afterwards. source.size() is below 2^32.
UnstuffedScan unstuff(ByteSpan source, std::uint8_t* clean, Span<std::uint32_t> restart_offsets) noexcept;

// Returns the position of the first FF that is followed by a byte other than 00: the start of a marker, RSTn included,
// or a fill byte. Returns the number of bytes if there is none.
using FindMarkerFunction = std::size_t(ByteSpan bytes) noexcept;

FindMarkerFunction find_marker_scalar, find_marker_avx2;

}  // namespace fastload

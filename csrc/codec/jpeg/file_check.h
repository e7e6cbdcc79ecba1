// Decides whether libjpeg decodes a file, as far as its markers tell.
#pragma once

#include <cstddef>

#include "base/span.h"
#include "base/status.h"
#include "codec/decoder.h"
#include "codec/jpeg/decoding_tables.h"
#include "codec/jpeg/markers.h"
#include "codec/jpeg/scan_script.h"
#include "kernels/find_marker.h"

namespace fastload::jpeg {

// Note [checked files]
// A caller that decodes a part of an image later has to know now whether there is an image: Pillow raises when it loads
// the file, and its caller catches the error there. So everything that may make libjpeg fail is checked, without
// decoding: all segments up to EOI, the tables that each scan takes, the order of the scans, and that the data of each
// scan run up to its next marker. libjpeg only warns about the contents of the data, and Pillow ignores that, with one
// exception: a DC prediction of a progressive file must stay inside of 32 bits. The number of blocks and the largest
// difference of the table bound it. A file that passes may still be one that the decoder leaves to Pillow, which then
// decodes it without an error.

// Checks a file whose header was read. *end_offset receives the position after its EOI.
Status check_file(FindMarkerFunction find_marker, ByteSpan file, const Header& header, const DecodeLimits& limits,
                  DecodingTables* decoding, std::size_t* end_offset) noexcept;

// Like read_segments_between_scans, after a scan that `script` has accepted. EOI must come once all coefficients are
// known, and in a sequential file directly after the last scan.
Status read_to_next_scan(ByteSpan file, std::size_t* offset, const Frame& frame, const ScanScript& script,
                         Tables* tables, Scan* scan, bool* is_end) noexcept;

}  // namespace fastload::jpeg

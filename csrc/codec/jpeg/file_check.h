// Whether libjpeg decodes a file, as far as its markers decide that.
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
// Whoever wants to decode a part of an image later has to say now whether there is an image: Pillow raises when it
// loads the file, and its caller catches that there. So everything that libjpeg may fail for is looked at, without
// decoding: all segments up to EOI, the tables that each scan takes, the order of the scans, and that the data of each
// scan run up to its next marker. What is inside of the data it can only warn about, which Pillow ignores, but for one
// thing: a DC prediction of a progressive file must stay inside of 32 bits, which the number of blocks and the largest
// difference of the table bound. A file that passes may still be one that the decoder leaves to Pillow. Pillow decodes
// it then, without an error.

// Checks a file whose header was read. *end_offset: behind its EOI.
Status check_file(FindMarkerFunction find_marker, ByteSpan file, const Header& header, const DecodeLimits& limits,
                  DecodingTables* decoding, std::size_t* end_offset) noexcept;

// As read_segments_between_scans, behind a scan that `script` has accepted. EOI must come where all coefficients are
// known, and in a sequential file directly behind the last scan.
Status read_to_next_scan(ByteSpan file, std::size_t* offset, const Frame& frame, const ScanScript& script,
                         Tables* tables, Scan* scan, bool* is_end) noexcept;

}  // namespace fastload::jpeg

// Decides whether libjpeg decodes a file, as far as its markers tell.
#pragma once

#include <cstddef>

#include "base/span.h"
#include "base/status.h"
#include "codec/decoder.h"
#include "codec/jpeg/decoding_tables.h"
#include "codec/jpeg/markers.h"
#include "kernels/unstuff.h"

namespace fastload::jpeg {

// Note [complete files]
// libjpeg warns about a scan that refines unseen coefficients or repeats known ones, and goes on. If any of a
// component's first coefficients is not known to its last bit when the file ends, libjpeg smooths the blocks' edges.
// Both kinds of files are left to it: a file is accepted if every coefficient of every component comes down to bit 0
// step by step, none twice, and AC after DC. A sequential scan brings all coefficients of its components at once.
class ScanScript {
  public:
    // Adds scan `number` of the file, from 0. kIrregular if it does not continue the ones before, kLimitExceeded if
    // there are too many.
    Status accept(const Scan& scan, int number, const DecodeLimits& limits) noexcept;

    // True when the first `component_count` components are known to the last bit.
    bool is_complete(int component_count) const noexcept;

  private:
    static constexpr std::int8_t kUnknown = -1;

    // The lowest known bit of each coefficient.
    struct Component {
        std::int8_t bits[64];
        Component() noexcept {
            for (std::int8_t& bit : bits) bit = kUnknown;
        }
    };
    Component components_[kMaxComponents];
};

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

// Goes through the scans of a file whose header was read. For each one calls read_data(scan, end_offset), which sets
// the end of the scan's data, reads the segments up to the next scan, and calls decode(scan, scan_index). In read_data
// `tables` are the tables of this scan, in decode the tables of the next one. In the end *end_offset is the position
// after EOI.
template <typename ReadData, typename Decode>
Status for_each_scan(ByteSpan file, const Header& header, const DecodeLimits& limits, DecodingTables* decoding,
                     Tables* tables, std::size_t* end_offset, ReadData read_data, Decode decode) noexcept {
    *tables = header.tables;
    Scan scan = header.first_scan;
    ScanScript script;
    bool is_end = false;
    for (int scan_index = 0; !is_end; ++scan_index) {
        Scan next_scan;
        Status status = script.accept(scan, scan_index, limits);
        if (status.is_ok()) status = decoding->match(header.frame, scan, *tables);
        if (status.is_ok()) status = read_data(scan, end_offset);
        if (status.is_ok()) {
            status = read_to_next_scan(file, end_offset, header.frame, script, tables, &next_scan, &is_end);
        }
        if (status.is_ok()) status = decode(scan, scan_index);
        if (!status.is_ok()) return status;
        scan = next_scan;
    }
    return Status::ok();
}

}  // namespace fastload::jpeg

// Makes the scan form of a file for a device: Note [scan form].
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/image_view.h"
#include "base/span.h"
#include "codec/jpeg/entropy_index.h"
#include "codec/jpeg/markers.h"
#include "codec/jpeg/scan_data.h"
#include "device/scan_wire.h"

namespace fastload::jpeg {

// A file with an index: its header, its only scan without stuffing, and the positions in that.
struct IndexedScan {
    const Header& header;
    const ScanData& data;
    const EntropyIndex& index;
};

// Sets the fields of `head` that follow from a file's header and the region of the image that is wanted.
void describe_frame(const Header& header, const Region& region, ScanHead* head) noexcept;

// Does the same and sets num_places, data_bytes and bytes. The caller sets what becomes of the region. The index
// knows all rows of MCUs that it needs, so the host's decoder has accepted them.
void describe_scan(const IndexedScan& scan, const Region& region, ScanHead* head) noexcept;

// Writes the head, after its `bytes` were set, and all that belongs to it. `wire` has head->bytes and begins at a
// multiple of 16.
void write_scan(const IndexedScan& scan, const ScanHead& head, Span<std::uint8_t> wire) noexcept;

}  // namespace fastload::jpeg

// The Huffman tables of a scan in the forms that the entropy decoders read.
#pragma once

#include "base/status.h"
#include "codec/jpeg/huffman_table.h"
#include "codec/jpeg/markers.h"

namespace fastload::jpeg {

// A decoding table and its specification: many files, and many scans of a file, share the same ones.
template <typename Table>
class CachedTable {
  public:
    // Makes the table match `spec`. Returns nullptr if that is undefined or not a table that the decoder takes.
    const Table* match(const HuffmanSpec& spec) noexcept;

    // The last result of match(), if that was a table.
    const Table* table() const noexcept { return &table_; }

  private:
    HuffmanSpec built_;
    Table table_;
};

// One table for each slot and use. A table stays until another specification is matched against its slot.
struct DecodingTables {
    CachedTable<DcTable> dc[kTableSlots];
    CachedTable<AcTable> ac[kTableSlots];
    CachedTable<BandTable> band[kTableSlots];

    // Makes the tables that `scan` reads match `tables`, as they are at its header. kIrregular if one is missing (also
    // a quantization table of its components) or is not one that the decoder takes.
    Status match(const Frame& frame, const Scan& scan, const Tables& tables) noexcept;

  private:
    Status match_component(const Frame& frame, const Scan& scan, const ScanComponent& component,
                           const Tables& tables) noexcept;
    Status match_band(const Scan& scan, const Tables& tables) noexcept;
};

}  // namespace fastload::jpeg

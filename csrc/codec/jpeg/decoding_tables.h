// The Huffman tables of a scan in the forms that the entropy decoders read.
#pragma once

#include "base/status.h"
#include "codec/jpeg/huffman_table.h"
#include "codec/jpeg/markers.h"

namespace fastload::jpeg {

// A decoding table and what it was made from: many files, and many scans of a file, share the same ones.
template <typename Table>
class CachedTable {
  public:
    // Makes the table match `spec`. Returns nullptr where that is not defined or not one that the decoder takes.
    const Table* match(const HuffmanSpec& spec) noexcept;

    // What match() returned last, if that was a table.
    const Table* table() const noexcept { return &table_; }

  private:
    HuffmanSpec built_;
    Table table_;
};

// One table for each slot and use. A table stands until another specification is matched against its slot.
struct DecodingTables {
    CachedTable<DcTable> dc[kTableSlots];
    CachedTable<AcTable> ac[kTableSlots];
    CachedTable<BandTable> band[kTableSlots];

    // Makes those that `scan` reads match `tables`, as they stand at its header; kIrregular where one is missing, also
    // of the quantization tables that its components take, or is not one that the decoder takes.
    Status match(const Frame& frame, const Scan& scan, const Tables& tables) noexcept;

  private:
    Status match_sequential(const Scan& scan, const Tables& tables) noexcept;
    Status match_band(const Scan& scan, const Tables& tables) noexcept;
};

}  // namespace fastload::jpeg

// Decodes the entropy-coded coefficients of one scan of a progressive file.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "codec/jpeg/coefficient_planes.h"
#include "codec/jpeg/huffman_table.h"
#include "codec/jpeg/markers.h"
#include "codec/jpeg/scan_data.h"

namespace fastload::jpeg {

// One block of an MCU of a DC scan. The table is the caller's and outlives the scan; a refinement scan has none.
struct DcScanBlock {
    const DcTable* table = nullptr;
    int prediction = 0;  // index of the component in the scan
    // The output for the DC coefficients of the current row: the i-th MCU of the window writes to output[i *
    // mcu_stride], for i < kept_mcus. The other MCUs of the row, padding after the component's last column, are only
    // read.
    std::int16_t* output = nullptr;
    std::size_t mcu_stride = 0;
    std::uint32_t kept_mcus = 0;
};

// Input and output of an AC scan, which has one component. An MCU is one of its blocks.
struct BandScan {
    const BandTable* table = nullptr;
    NonzeroMask* nonzero = nullptr;  // of the component's first block
    std::int16_t* output = nullptr;  // the block of the window's first column of the current row
};

class ProgressiveScan : public SegmentWalk {
  public:
    // `restart_interval` in MCUs, 0 for none.
    void begin(const ScanData& data, const Scan& scan, std::uint32_t mcu_count,
               std::uint32_t restart_interval) noexcept;

    // The plan of the scan: the blocks of an MCU in stream order, or the band. The caller sets the outputs before every
    // row that is kept.
    void add_block(const DcScanBlock& block) noexcept { dc_blocks_[dc_block_count_++] = block; }
    DcScanBlock* dc_blocks() noexcept { return dc_blocks_; }
    int dc_block_count() const noexcept { return dc_block_count_; }
    BandScan& band() noexcept { return band_; }

    // Reads the next `count` MCUs and keeps no values. An AC scan notes which coefficients are not zero.
    Status walk(std::uint32_t count) noexcept { return run(count, false); }
    // Decodes the next `count` MCUs, which begin at the window's left side.
    Status decode(std::uint32_t count) noexcept { return run(count, true); }
    // Also proves that no part of a run of blocks is left of a segment that was read completely.
    Status finish() const noexcept;

  private:
    Status run(std::uint32_t count, bool is_kept) noexcept;
    template <bool kIsKept>
    bool run_part(std::uint32_t first, std::uint32_t count) noexcept;
    template <bool kIsKept>
    bool decode_dc(std::uint32_t first, std::uint32_t count) noexcept;
    template <bool kIsKept>
    bool refine_dc(std::uint32_t first, std::uint32_t count) noexcept;
    template <bool kIsKept, bool kIsRefinement>
    bool read_bands(std::uint32_t first, std::uint32_t count) noexcept;

    Scan scan_;
    std::uint32_t run_of_blocks_ = 0;  // blocks to come that belong to the run of the last end of band
    DcScanBlock dc_blocks_[kMaxBlocksPerMcu];
    int dc_block_count_ = 0;
    BandScan band_;
};

}  // namespace fastload::jpeg

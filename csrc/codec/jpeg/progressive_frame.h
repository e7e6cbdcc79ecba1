// Decodes progressive files: all scans into coefficients, then those of a region into samples.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/image_view.h"
#include "base/span.h"
#include "base/status.h"
#include "codec/decoder.h"
#include "codec/jpeg/coefficient_planes.h"
#include "codec/jpeg/coefficient_writer.h"
#include "codec/jpeg/entropy_progressive.h"
#include "codec/jpeg/frame_tools.h"
#include "codec/jpeg/markers.h"
#include "codec/jpeg/scan_data.h"
#include "codec/jpeg/scan_grid.h"
#include "codec/jpeg/scan_script.h"

namespace fastload::jpeg {

// Owns the coefficients.
class ProgressiveFrame {
  public:
    ProgressiveFrame(const FrameTools& tools, const DecodeLimits& limits) noexcept : tools_(tools), limits_(limits) {}

    // Decodes `region` of a file with a progressive header; all rows of the reconstructor are complete then. `header`
    // must live until the reconstructor's view is taken.
    Status decode(ByteSpan file, const Header& header, const Region& region) noexcept;

    // Decodes all of such a file and writes its coefficients.
    Status read(ByteSpan file, const Header& header, CoefficientWriter* writer) noexcept;

    // True where the last decode() left rows of a scan below the region unread.
    bool stopped_early() const noexcept { return stopped_early_; }
    std::size_t scratch_bytes() const noexcept { return planes_.scratch_bytes(); }
    void release_scratch(ScratchRule rule) noexcept { planes_.release_scratch(rule); }

  private:
    Status decode_scans(ByteSpan file, const Header& header, const McuWindow& window) noexcept;
    Status decode_scan(const Scan& scan, std::size_t* end_offset) noexcept;
    Status plan_dc(const Scan& scan, const ScanData& data, std::uint32_t mcu_count) noexcept;
    void plan_band(const Scan& scan) noexcept;
    Status begin_components(const Scan& scan) noexcept;
    Status decode_rows(const Scan& scan) noexcept;
    void set_outputs(const Scan& scan, const ScanGrid& grid, std::int32_t mcu_row) noexcept;
    Status add_rows(std::int32_t mcu_row, int component, CoefficientWriter* writer) const noexcept;
    void reconstruct() const noexcept;
    void reconstruct_block_row(int component, std::int32_t block_row) const noexcept;

    FrameTools tools_;
    DecodeLimits limits_;
    ByteSpan file_;
    const Header* header_ = nullptr;
    McuWindow window_;
    Tables tables_;  // as they stand at the current scan
    // libjpeg keeps the table that a component has at its first scan.
    QuantizationTable quantization_[kMaxComponents];
    CoefficientPlanes planes_;
    ProgressiveScan entropy_;
    bool is_laid_out_ = false;
    bool stopped_early_ = false;
};

}  // namespace fastload::jpeg

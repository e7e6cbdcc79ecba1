// Decodes progressive files: all scans into coefficients, then the coefficients of a region into samples.
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
#include "codec/jpeg/frame_scans.h"
#include "codec/jpeg/markers.h"
#include "codec/jpeg/scan_data.h"
#include "codec/jpeg/scan_grid.h"

namespace fastload::jpeg {

// Owns the coefficients.
class ProgressiveFrame : public FrameScans {
  public:
    ProgressiveFrame(const FrameTools& tools, const DecodeLimits& limits) noexcept : FrameScans(tools, limits) {}

    // Decodes `region` of a file with a progressive header; all rows of the reconstructor are complete then. `header`
    // must live until the reconstructor's view is taken.
    Status decode(ByteSpan file, const Header& header, const Region& region) noexcept;

    // Decodes all of such a file and writes its coefficients.
    Status read(ByteSpan file, const Header& header, CoefficientWriter* writer) noexcept;

    std::size_t scratch_bytes() const noexcept { return planes_.scratch_bytes(); }
    void release_scratch(ScratchRule rule) noexcept { planes_.release_scratch(rule); }

  private:
    Status decode_scans(ByteSpan file, const Header& header, const McuWindow& window) noexcept;
    Status read_scan_data(const Scan& scan, std::size_t* end_offset) noexcept;
    Status plan_dc(const Scan& scan, const ScanData& data, std::uint32_t mcu_count) noexcept;
    void plan_band(const Scan& scan) noexcept;
    Status begin_components(const Scan& scan) noexcept;
    Status decode_rows(const Scan& scan) noexcept;
    void set_outputs(const Scan& scan, const ScanGrid& grid, std::int32_t mcu_row) noexcept;
    Status add_rows(std::int32_t mcu_row, int component, CoefficientWriter* writer) const noexcept;
    void reconstruct() const noexcept;
    void reconstruct_block_row(int component, std::int32_t block_row) const noexcept;

    McuWindow window_;
    CoefficientPlanes planes_;
    ProgressiveScan entropy_;
    bool is_laid_out_ = false;
};

}  // namespace fastload::jpeg

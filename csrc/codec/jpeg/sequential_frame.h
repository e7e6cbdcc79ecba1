// Decodes sequential files scan by scan: a region into samples, or all into packed blocks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/image_view.h"
#include "base/span.h"
#include "base/status.h"
#include "codec/decoder.h"
#include "codec/jpeg/coefficient_writer.h"
#include "codec/jpeg/entropy_baseline.h"
#include "codec/jpeg/entropy_index.h"
#include "codec/jpeg/frame_scans.h"
#include "codec/jpeg/markers.h"
#include "codec/jpeg/packed_rows.h"

namespace fastload::jpeg {

class SequentialFrame : public FrameScans {
  public:
    SequentialFrame(const FrameTools& tools, const DecodeLimits& limits) noexcept : FrameScans(tools, limits) {}

    // Decodes `region` of a file with a sequential header; all rows of the reconstructor are complete then. `header`
    // must live until the reconstructor's view is taken. For `index` see JpegDecoder::decode.
    Status decode(ByteSpan file, const Header& header, const Region& region, EntropyIndex* index) noexcept;

    // Walks through the first `rows` rows of MCUs of a file with one scan, as far as `index` does not know them, and
    // records them. *data is valid as long as the reader's.
    Status extend(ByteSpan file, const Header& header, std::uint32_t rows, EntropyIndex* index,
                  ScanData* data) noexcept;

    // Decodes all of such a file and writes its coefficients.
    Status read(ByteSpan file, const Header& header, CoefficientWriter* writer) noexcept;

    // True if the last decode() found its index to be of other data.
    bool was_index_wrong() const noexcept { return was_index_wrong_; }

    std::size_t scratch_bytes() const noexcept { return rows_.scratch_bytes(); }
    void release_scratch(ScratchRule rule) noexcept { rows_.release_scratch(rule); }

  private:
    Status read_scan_data(const Scan& scan, std::size_t* end_offset) noexcept;
    auto data_reader() noexcept {
        return [this](const Scan& scan, std::size_t* end_offset) { return read_scan_data(scan, end_offset); };
    }
    void plan_blocks(const Scan& scan, const ScanData& data, std::uint32_t mcu_count) noexcept;
    void set_outputs(const Scan& scan, std::int32_t mcu_row) noexcept;
    void restart_rows(const Scan& scan, std::int32_t mcu_row, std::int32_t kept_row) noexcept;
    bool is_single_pass() const noexcept;

    Status decode_scans(const Region& region, EntropyIndex* index) noexcept;
    Status decode_rows(const Scan& scan, EntropyIndex* index) noexcept;
    void complete_all_rows() noexcept;

    Status pack_rows(const Scan& scan, CoefficientWriter* writer) noexcept;
    Status add_rows(std::int32_t mcu_row, std::int32_t kept_row, CoefficientWriter* writer) noexcept;

    EntropyScan entropy_;
    PackedRows rows_;
    bool has_relied_ = false;  // the last scan used the index
    bool was_index_wrong_ = false;
};

}  // namespace fastload::jpeg

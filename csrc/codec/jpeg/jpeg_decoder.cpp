#include "codec/jpeg/jpeg_decoder.h"

#include <algorithm>

#include "codec/jpeg/file_check.h"
#include "codec/jpeg/scan_grid.h"

namespace fastload {
namespace {

using jpeg::as_size;
using jpeg::EntropyIndex;
using jpeg::Frame;
using jpeg::FrameComponent;
using jpeg::McuWindow;
using jpeg::Reconstructor;
using jpeg::Scan;
using jpeg::ScanGrid;
using jpeg::ScanShape;

// A smaller image decodes in less time than an index takes.
constexpr std::int32_t kMinIndexedRows = 4;
// At least one MCU of this many must be skipped, or an index is not worth its look-up.
constexpr std::int32_t kMinGain = 16;

// Reconstructs the part of one component's block row that lies in the reconstructor's window. False if it holds too few
// blocks.
bool reconstruct_blocks(const KernelTable& kernels, const jpeg::RecordReader& record, int component,
                        std::int32_t block_row, ByteSpan packed, const Reconstructor& reconstructor) {
    const FrameComponent& facts = record.frame().components[component];
    const McuWindow& window = reconstructor.window();
    const std::int32_t left = window.left * facts.horizontal;
    const std::int32_t right = std::min(window.right * facts.horizontal, facts.blocks_wide);
    const std::uint8_t* const first = kernels.skip_blocks(packed.begin(), packed.end(), as_size(left));
    return first != nullptr &&
           kernels.reconstruct_blocks(first, packed.end(), as_size(right - left), record.quantization(component),
                                      reconstructor.block(component, left, block_row)) != nullptr;
}

}  // namespace

JpegDecoder::JpegDecoder(const KernelTable& kernels, const DecodeLimits& limits)
    : kernels_(kernels),
      limits_(limits),
      reconstructor_(kernels),
      sequential_({kernels, scan_reader_, decoding_tables_, reconstructor_}, limits),
      progressive_({kernels, scan_reader_, decoding_tables_, reconstructor_}, limits) {}

std::size_t JpegDecoder::scratch_bytes() const noexcept {
    return sizeof(*this) + scan_reader_.scratch_bytes() + sequential_.scratch_bytes() + progressive_.scratch_bytes() +
           reconstructor_.scratch_bytes();
}

void JpegDecoder::release_scratch(ScratchRule rule) noexcept {
    scan_reader_.release_scratch(rule);
    sequential_.release_scratch(rule);
    progressive_.release_scratch(rule);
    reconstructor_.release_scratch(rule);
}

bool JpegDecoder::rejects_head(ByteSpan head) const noexcept {
    jpeg::Header header;
    const Status status = jpeg::read_header_segments(head, limits_, &header);
    return !status.is_ok() && !jpeg::is_cut_short(status);
}

Status JpegDecoder::read_header(ByteSpan file, ImageInfo* info) noexcept {
    file_ = file;
    is_ready_ = false;
    const Status status = jpeg::read_header_segments(file, limits_, &header_);
    if (!status.is_ok()) return status;
    is_ready_ = true;
    info->size = header_.frame.size;
    info->components = header_.frame.component_count;
    return Status::ok();
}

Status JpegDecoder::read_orientation(int* orientation) const noexcept {
    if (!is_ready_) return Status::unsupported("no header has been read");
    return jpeg::read_orientation(header_.app, orientation);
}

Status JpegDecoder::check_file(std::size_t* end_offset) noexcept {
    if (!is_ready_) return Status::unsupported("no header has been read");
    return jpeg::check_file(kernels_.find_marker, file_, header_, limits_, &decoding_tables_, end_offset);
}

bool JpegDecoder::scan_shape(ScanShape* shape) const noexcept {
    const Frame& frame = header_.frame;
    const Scan& scan = header_.first_scan;
    if (!is_ready_ || frame.is_progressive || scan.component_count != frame.component_count ||
        header_.tables.restart_interval != 0) {
        return false;
    }
    const ScanGrid grid(frame, scan, McuWindow{});
    *shape = {static_cast<std::uint32_t>(grid.wide), static_cast<std::uint32_t>(grid.high), 0, scan.component_count};
    for (int i = 0; i < scan.component_count; ++i) shape->blocks_per_mcu += jpeg::BlocksOfMcu(frame, scan, i).count();
    return grid.high >= kMinIndexedRows;
}

bool JpegDecoder::gains_from_index(const Region& region) const noexcept {
    const Frame& frame = header_.frame;
    const std::int32_t mcu_width = 8 * frame.max_horizontal;
    const std::int32_t mcu_height = 8 * frame.max_vertical;
    const std::int32_t above = region.top / mcu_height;
    const std::int32_t rows = (region.top + region.height - 1) / mcu_height + 1 - above;
    const std::int32_t columns = (region.left + region.width - 1) / mcu_width + 1 - region.left / mcu_width;
    const std::int64_t left_out =
        std::int64_t{above} * frame.mcus_wide + std::int64_t{rows} * (frame.mcus_wide - columns);
    return left_out * kMinGain >= std::int64_t{above + rows} * frame.mcus_wide;
}

Status JpegDecoder::decode(const Region& region, EntropyIndex* index, StripImageView* rgb) noexcept {
    if (!is_ready_) return Status::unsupported("no header has been read");
    const Frame& frame = header_.frame;
    if (!region.lies_inside(frame.size.width, frame.size.height)) {
        return Status::unsupported("a region outside of the image");
    }
    const Status status = frame.is_progressive ? progressive_.decode(file_, header_, region)
                                               : sequential_.decode(file_, header_, region, index);
    if (status.is_ok()) *rgb = reconstructor_.view();
    return status;
}

bool JpegDecoder::read_scan(const Region& region, EntropyIndex* index, jpeg::ScanData* data) noexcept {
    const ScanGrid grid(header_.frame, header_.first_scan, jpeg::decode_window(header_.frame, region));
    const auto rows = static_cast<std::uint32_t>(grid.window.bottom);
    if (index->rows_known() < rows) {
        return sequential_.extend(file_, header_, rows, index, data).is_ok() && index->rows_known() >= rows;
    }
    std::size_t end_offset = 0;
    const Status status =
        scan_reader_.read(file_, header_.first_scan.data_offset, grid.mcu_count(), 0, data, &end_offset);
    return status.is_ok() && data->size == index->data_bytes();
}

Status JpegDecoder::read_coefficients(jpeg::CoefficientWriter* writer) noexcept {
    if (!is_ready_) return Status::unsupported("no header has been read");
    return header_.frame.is_progressive ? progressive_.read(file_, header_, writer)
                                        : sequential_.read(file_, header_, writer);
}

Status JpegDecoder::decode_record(const jpeg::RecordReader& record, const Region& region,
                                  StripImageView* rgb) noexcept {
    const jpeg::RecordRows& rows = record.rows();
    const Frame& frame = record.frame();
    if (const Status status = reconstructor_.prepare(frame, record.color(), region); !status.is_ok()) return status;
    for (std::int32_t row = rows.first; row < rows.end; ++row) {
        for (int i = 0; i < frame.component_count; ++i) {
            const FrameComponent& component = frame.components[i];
            const int count = std::min(component.vertical, component.blocks_high - row * component.vertical);
            for (int block_row = 0; block_row < count; ++block_row) {
                const ByteSpan packed = record.block_row(row, i, block_row);
                if (!reconstruct_blocks(kernels_, record, i, row * component.vertical + block_row, packed,
                                        reconstructor_)) {
                    return Status::irregular("a coefficient record has too few bytes for its blocks", 0);
                }
            }
        }
        reconstructor_.mcu_row_is_complete(row);
    }
    *rgb = reconstructor_.view();
    return Status::ok();
}

}  // namespace fastload

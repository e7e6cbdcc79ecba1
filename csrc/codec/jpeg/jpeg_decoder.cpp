#include "codec/jpeg/jpeg_decoder.h"

#include <algorithm>
#include <cstring>

#include "codec/jpeg/file_check.h"
#include "codec/jpeg/indexed_walk.h"
#include "codec/jpeg/scan_grid.h"
#include "codec/jpeg/scan_script.h"

namespace fastload {
namespace {

using jpeg::EntropyIndex;
using jpeg::Frame;
using jpeg::FrameComponent;
using jpeg::IndexedWalk;
using jpeg::McuWindow;
using jpeg::Scan;
using jpeg::ScanGrid;
using jpeg::ScanScript;
using jpeg::ScanShape;

// Below it an image is decoded in less time than an index takes.
constexpr std::int32_t kMinIndexedRows = 4;
// One of so many MCUs must be left out, or an index is not worth its look-up; and so many of the rows must be new, or
// it is not worth a new record.
constexpr std::int32_t kMinGain = 16;
constexpr std::uint32_t kMinExtension = 8;

// Of one component of a scan (T.81 A.2).
struct BlocksOfMcu {
    int horizontal = 1;
    int vertical = 1;

    BlocksOfMcu(const Frame& frame, const Scan& scan, int component) noexcept {
        if (scan.component_count == 1) return;
        const FrameComponent& facts = frame.components[scan.components[component].component];
        horizontal = facts.horizontal;
        vertical = facts.vertical;
    }
    int count() const noexcept { return horizontal * vertical; }
};

bool is_same_fault(const Status& a, const Status& b) {
    return a.code == b.code && std::strcmp(a.detail, b.detail) == 0;
}

}  // namespace

JpegDecoder::JpegDecoder(const KernelTable& kernels, const DecodeLimits& limits)
    : kernels_(kernels),
      limits_(limits),
      reconstructor_(kernels),
      scan_reader_(kernels.unstuff),
      progressive_({kernels, scan_reader_, decoding_tables_, reconstructor_}, limits) {}

std::size_t JpegDecoder::scratch_bytes() const noexcept {
    return sizeof(*this) + scan_reader_.scratch_bytes() + progressive_.scratch_bytes() + reconstructor_.scratch_bytes();
}

void JpegDecoder::release_scratch(ScratchRule rule) noexcept {
    scan_reader_.release_scratch(rule);
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
    info->format = ImageFormat::kJpeg;
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
    return jpeg::check_file(file_, header_, limits_, &decoding_tables_, end_offset);
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
    for (int i = 0; i < scan.component_count; ++i) shape->blocks_per_mcu += BlocksOfMcu(frame, scan, i).count();
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
    stopped_early_ = false;
    was_index_wrong_ = false;
    if (!is_ready_) return Status::unsupported("no header has been read");
    const Frame& frame = header_.frame;
    if (!region.lies_inside(frame.size.width, frame.size.height)) {
        return Status::unsupported("a region outside of the image");
    }
    const Status status = frame.is_progressive ? decode_progressive(region) : decode_sequential(region, index);
    if (status.is_ok()) *rgb = reconstructor_.view();
    return status;
}

Status JpegDecoder::decode_progressive(const Region& region) noexcept {
    const Status status = progressive_.decode(file_, header_, region);
    stopped_early_ = status.is_ok() && progressive_.stopped_early();
    return status;
}

// Only a decode without the index tells a fault of the file from one of the index.
Status JpegDecoder::decode_sequential(const Region& region, EntropyIndex* index) noexcept {
    has_relied_ = false;
    const Status status = decode_scans(region, index);
    if (status.is_ok() || !has_relied_ || status.code != StatusCode::kIrregular) return status;
    stopped_early_ = false;
    const Status plain = decode_scans(region, nullptr);
    was_index_wrong_ = !is_same_fault(status, plain);
    if (was_index_wrong_) index->forget();
    return plain;
}

Status JpegDecoder::decode_scans(const Region& region, EntropyIndex* index) noexcept {
    const Frame& frame = header_.frame;
    tables_ = header_.tables;
    Scan scan = header_.first_scan;
    ScanScript script;
    bool is_end = false;
    for (int scan_index = 0; !is_end; ++scan_index) {
        Status status = script.accept(scan, scan_index, limits_);
        // Before the segments behind the scan are read: it takes the tables as they stand now.
        if (status.is_ok()) status = decoding_tables_.match(frame, scan, tables_);
        if (!status.is_ok()) return status;
        for (int i = 0; i < scan.component_count; ++i) {
            const int component = scan.components[i].component;
            quantization_[component] = tables_.quantization[frame.components[component].quantization_slot];
        }
        std::size_t end_offset = 0;
        status = read_scan_data(scan, &end_offset);
        if (status.is_ok() && index != nullptr && !index->accepts(entropy_.data_bytes())) {
            was_index_wrong_ = true;
            index->forget();
            index = nullptr;
        }
        Scan next_scan;
        if (status.is_ok()) {
            status = read_to_next_scan(file_, &end_offset, frame, script, &tables_, &next_scan, &is_end);
        }
        // The planes are laid out only when the file has shown that it may hold as many blocks.
        if (status.is_ok() && scan_index == 0) status = reconstructor_.prepare(frame, header_.color, region);
        if (status.is_ok()) status = decode_rows(scan, index);
        if (!status.is_ok()) return status;
        scan = next_scan;
    }
    if (!is_single_pass()) complete_all_rows();
    return Status::ok();
}

// True where rows can be reconstructed as they are decoded.
bool JpegDecoder::is_single_pass() const noexcept {
    return header_.first_scan.component_count == header_.frame.component_count && header_.frame.component_count > 1;
}

void JpegDecoder::complete_all_rows() noexcept {
    const McuWindow& window = reconstructor_.window();
    for (std::int32_t row = window.top; row < window.bottom; ++row) reconstructor_.mcu_row_is_complete(row);
}

Status JpegDecoder::read_scan_data(const Scan& scan, std::size_t* end_offset) noexcept {
    const std::uint32_t mcu_count = ScanGrid(header_.frame, scan, McuWindow{}).mcu_count();
    jpeg::ScanData data;
    const Status status =
        scan_reader_.read(file_, scan.data_offset, mcu_count, tables_.restart_interval, &data, end_offset);
    if (!status.is_ok()) return status;
    plan_blocks(scan, data, mcu_count);
    // A block takes at least two bits, one for each of its two codes.
    const auto block_count = static_cast<std::uint64_t>(mcu_count) * static_cast<unsigned>(entropy_.block_count());
    if (block_count > static_cast<std::uint64_t>(data.size) * 4) {
        return Status::irregular("a scan has not enough data for its blocks", *end_offset);
    }
    return Status::ok();
}

void JpegDecoder::plan_blocks(const Scan& scan, const jpeg::ScanData& data, std::uint32_t mcu_count) noexcept {
    entropy_.begin(data, mcu_count, tables_.restart_interval, kernels_, scan.data_offset);
    for (int i = 0; i < scan.component_count; ++i) {
        const jpeg::ScanComponent& component = scan.components[i];
        const BlocksOfMcu blocks(header_.frame, scan, i);
        jpeg::ScanBlock block;
        block.dc = decoding_tables_.dc[component.dc_slot].table();
        block.ac = decoding_tables_.ac[component.ac_slot].table();
        block.quantization = quantization_[component.component].values;
        block.prediction = i;
        block.mcu_stride_bytes = static_cast<std::size_t>(blocks.horizontal) * 64;
        for (int n = 0; n < blocks.count(); ++n) entropy_.add_block(block);
    }
}

Status JpegDecoder::decode_rows(const Scan& scan, EntropyIndex* index) noexcept {
    const ScanGrid grid(header_.frame, scan, reconstructor_.window());
    const auto wide = static_cast<std::uint32_t>(grid.wide);
    const auto left = static_cast<std::uint32_t>(grid.window.left);
    const auto top = static_cast<std::uint32_t>(grid.window.top);
    const auto bottom = static_cast<std::uint32_t>(grid.window.bottom);
    const bool is_recording = index != nullptr && (bottom - std::min(bottom, index->rows_known())) * kMinExtension >=
                                                      index->shape().mcus_high;
    IndexedWalk walk(entropy_, index, is_recording);
    Status status = walk.walk_to(top * wide);
    for (std::uint32_t row = top; status.is_ok() && row < bottom; ++row) {
        status = walk.walk_to(row * wide + left);
        if (!status.is_ok()) break;
        set_outputs(scan, static_cast<std::int32_t>(row));
        status = walk.decode(static_cast<std::uint32_t>(grid.window.right) - left);
        if (status.is_ok()) status = walk.leave_row((row + 1) * wide, row + 1 == bottom);
        if (status.is_ok() && is_single_pass()) reconstructor_.mcu_row_is_complete(static_cast<std::int32_t>(row));
    }
    has_relied_ = walk.has_relied();
    if (grid.window.bottom < grid.high) stopped_early_ = true;
    return status.is_ok() ? entropy_.finish() : status;
}

// Points the blocks of the window's first MCU in this row of MCUs to their places, in stream order.
void JpegDecoder::set_outputs(const Scan& scan, std::int32_t mcu_row) noexcept {
    const McuWindow& window = reconstructor_.window();
    jpeg::ScanBlock* block = entropy_.blocks();
    for (int i = 0; i < scan.component_count; ++i) {
        const int component = scan.components[i].component;
        const FrameComponent& facts = header_.frame.components[component];
        const BlocksOfMcu blocks(header_.frame, scan, i);
        const std::int32_t first_column = window.left * facts.horizontal;
        for (int y = 0; y < blocks.vertical; ++y) {
            for (int x = 0; x < blocks.horizontal; ++x, ++block) {
                block->output = reconstructor_.block(component, first_column + x, mcu_row * blocks.vertical + y);
            }
        }
    }
}

}  // namespace fastload

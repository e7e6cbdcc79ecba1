#include "codec/jpeg/progressive_frame.h"

#include <algorithm>

#include "kernels/idct.h"

namespace fastload::jpeg {
namespace {

std::uint32_t as_count(std::int32_t value) { return static_cast<std::uint32_t>(value); }

}  // namespace

Status ProgressiveFrame::decode(ByteSpan file, const Header& header, const Region& region) noexcept {
    Status status = decode_scans(file, header, decode_window(header.frame, region));
    if (status.is_ok()) status = tools_.reconstructor.prepare(header.frame, header.color, region);
    if (status.is_ok()) reconstruct();
    return status;
}

Status ProgressiveFrame::read(ByteSpan file, const Header& header, CoefficientWriter* writer) noexcept {
    const Frame& frame = header.frame;
    Status status = decode_scans(file, header, {0, frame.mcus_wide, 0, frame.mcus_high});
    if (status.is_ok()) status = writer->begin(frame, header.color);
    for (std::int32_t mcu_row = 0; status.is_ok() && mcu_row < frame.mcus_high; ++mcu_row) {
        for (int i = 0; status.is_ok() && i < frame.component_count; ++i) status = add_rows(mcu_row, i, writer);
    }
    for (int i = 0; i < frame.component_count; ++i) writer->set_quantization(i, quantization_[i]);
    return status;
}

Status ProgressiveFrame::add_rows(std::int32_t mcu_row, int component, CoefficientWriter* writer) const noexcept {
    const FrameComponent& facts = header_->frame.components[component];
    Status status;
    for (int y = 0; status.is_ok() && y < facts.vertical; ++y) {
        const std::int32_t block_row = mcu_row * facts.vertical + y;
        const bool is_there = block_row < facts.blocks_high;
        status = is_there
                     ? writer->add(planes_.block(component, 0, block_row), static_cast<std::size_t>(facts.blocks_wide))
                     : writer->add(nullptr, 0);
    }
    return status;
}

// Reads all scans and keeps the coefficients of the blocks in `window`.
Status ProgressiveFrame::decode_scans(ByteSpan file, const Header& header, const McuWindow& window) noexcept {
    begin(file, header);
    window_ = window;
    is_laid_out_ = false;
    return for_each_scan([this](const Scan& scan, std::size_t* end_offset) { return read_scan_data(scan, end_offset); },
                         [this](const Scan& scan, int /*scan_index*/) { return decode_rows(scan); });
}

Status ProgressiveFrame::read_scan_data(const Scan& scan, std::size_t* end_offset) noexcept {
    const std::uint32_t mcu_count = ScanGrid(header_->frame, scan, McuWindow{}).mcu_count();
    const std::uint32_t interval = tables_.restart_interval;
    ScanData data;
    const Status status = tools_.reader.read(file_, scan.data_offset, mcu_count, interval, &data, end_offset);
    if (!status.is_ok()) return status;
    entropy_.begin(data, scan, mcu_count, interval);
    if (scan.is_dc()) return plan_dc(scan, data, mcu_count);
    plan_band(scan);
    return Status::ok();
}

Status ProgressiveFrame::plan_dc(const Scan& scan, const ScanData& data, std::uint32_t mcu_count) noexcept {
    for (int i = 0; i < scan.component_count; ++i) {
        const ScanComponent& component = scan.components[i];
        DcScanBlock block;
        block.prediction = i;
        if (!scan.is_refinement()) block.table = tools_.tables.dc[component.dc_slot].table();
        const int count = BlocksOfMcu(header_->frame, scan, i).count();
        for (int n = 0; n < count; ++n) entropy_.add_block(block);
    }
    // A block takes at least one bit.
    const auto block_count = static_cast<std::uint64_t>(mcu_count) * static_cast<unsigned>(entropy_.dc_block_count());
    if (block_count > static_cast<std::uint64_t>(data.size) * 8) {
        return Status::irregular("a scan has not enough data for its blocks", scan.data_offset);
    }
    return scan.is_refinement() ? Status::ok() : begin_components(scan);
}

// Runs at the first DC scan of components. That scan has shown that the file may hold so many blocks, so memory is
// allocated here.
Status ProgressiveFrame::begin_components(const Scan& scan) noexcept {
    Status status;
    if (!is_laid_out_) {
        status = planes_.begin(header_->frame, window_, limits_.max_coefficient_bytes);
        is_laid_out_ = true;
    }
    keep_quantization(scan);
    for (int i = 0; status.is_ok() && i < scan.component_count; ++i) {
        status = planes_.reserve(scan.components[i].component);
    }
    return status;
}

void ProgressiveFrame::plan_band(const Scan& scan) noexcept {
    const ScanComponent& component = scan.components[0];
    BandScan& band = entropy_.band();
    band.table = tools_.tables.band[component.ac_slot].table();
    band.nonzero = planes_.nonzero(component.component);
}

// A scan that brings the last bits of AC coefficients is not read below the window: nothing depends on these bits, and
// libjpeg could only warn about them.
Status ProgressiveFrame::decode_rows(const Scan& scan) noexcept {
    const ScanGrid grid(header_->frame, scan, window_);
    Status status = entropy_.walk(as_count(grid.window.top) * as_count(grid.wide));
    for (std::int32_t row = grid.window.top; status.is_ok() && row < grid.window.bottom; ++row) {
        set_outputs(scan, grid, row);
        status = entropy_.walk(as_count(grid.window.left));
        if (status.is_ok()) status = entropy_.decode(as_count(grid.window.right - grid.window.left));
        if (status.is_ok()) status = entropy_.walk(as_count(grid.wide - grid.window.right));
    }
    if (status.is_ok() && (scan.is_dc() || scan.approximation_low != 0)) {
        status = entropy_.walk(as_count(grid.high - grid.window.bottom) * as_count(grid.wide));
    }
    return status.is_ok() ? entropy_.finish() : status;
}

// Points the blocks of the window's first MCU in this row of MCUs to their outputs, in stream order.
void ProgressiveFrame::set_outputs(const Scan& scan, const ScanGrid& grid, std::int32_t mcu_row) noexcept {
    if (!scan.is_dc()) {
        entropy_.band().output = planes_.block(scan.components[0].component, grid.window.left, mcu_row);
        return;
    }
    DcScanBlock* block = entropy_.dc_blocks();
    for (int i = 0; i < scan.component_count; ++i) {
        const BlocksOfMcu blocks(header_->frame, scan, i);
        const int component = scan.components[i].component;
        const FrameComponent& facts = header_->frame.components[component];
        for (int y = 0; y < blocks.vertical; ++y) {
            for (int x = 0; x < blocks.horizontal; ++x, ++block) {
                const std::int32_t column = grid.window.left * blocks.horizontal + x;
                const std::int32_t row = mcu_row * blocks.vertical + y;
                const bool is_padding = column >= facts.blocks_wide || row >= facts.blocks_high;
                block->mcu_stride = 64 * static_cast<std::size_t>(blocks.horizontal);
                block->kept_mcus = is_padding ? 0 : as_count((facts.blocks_wide - column - 1) / blocks.horizontal + 1);
                block->output = is_padding ? nullptr : planes_.block(component, column, row);
            }
        }
    }
}

void ProgressiveFrame::reconstruct() const noexcept {
    const Frame& frame = header_->frame;
    for (std::int32_t mcu_row = window_.top; mcu_row < window_.bottom; ++mcu_row) {
        for (int i = 0; i < frame.component_count; ++i) {
            const FrameComponent& component = frame.components[i];
            const std::int32_t end = std::min((mcu_row + 1) * component.vertical, component.blocks_high);
            for (std::int32_t row = mcu_row * component.vertical; row < end; ++row) reconstruct_block_row(i, row);
        }
        tools_.reconstructor.mcu_row_is_complete(mcu_row);
    }
}

void ProgressiveFrame::reconstruct_block_row(int component, std::int32_t block_row) const noexcept {
    const FrameComponent& facts = header_->frame.components[component];
    const std::int32_t left = window_.left * facts.horizontal;
    const std::int32_t right = std::min(window_.right * facts.horizontal, facts.blocks_wide);
    const std::uint16_t* const quantization = quantization_[component].values;
    std::int16_t* block = planes_.block(component, left, block_row);
    const NonzeroMask* nonzero = planes_.nonzero(component) + block_row * facts.blocks_wide + left;
    std::uint8_t* output = tools_.reconstructor.block(component, left, block_row);
    for (std::int32_t column = left; column < right; ++column, ++nonzero, block += 64, output += 64) {
        if (*nonzero == 0) {
            fill_from_dc(*block, quantization[0], output);
        } else {
            tools_.kernels.inverse_dct(block, quantization, output);
        }
    }
}

}  // namespace fastload::jpeg

#include "codec/jpeg/sequential_frame.h"

#include <algorithm>
#include <cstring>

#include "codec/jpeg/indexed_walk.h"
#include "codec/jpeg/scan_grid.h"

namespace fastload::jpeg {
namespace {

constexpr std::size_t kSampleBlockBytes = 64;

bool is_same_fault(const Status& a, const Status& b) {
    return a.code == b.code && std::strcmp(a.detail, b.detail) == 0;
}

}  // namespace

// Decodes again without the index after a fault: only that tells a fault of the file from one of the index.
Status SequentialFrame::decode(ByteSpan file, const Header& header, const Region& region,
                               EntropyIndex* index) noexcept {
    begin(file, header);
    was_index_wrong_ = false;
    has_relied_ = false;
    const Status status = decode_scans(region, index);
    if (status.is_ok() || !has_relied_ || status.code != StatusCode::kIrregular) return status;
    const Status plain = decode_scans(region, nullptr);
    was_index_wrong_ = !is_same_fault(status, plain);
    if (was_index_wrong_) index->forget();
    return plain;
}

Status SequentialFrame::decode_scans(const Region& region, EntropyIndex* index) noexcept {
    const Status status = for_each_scan(data_reader(), [&](const Scan& scan, int scan_index) {
        if (index != nullptr && !index->accepts(entropy_.data().size)) {
            was_index_wrong_ = true;
            index->forget();
            index = nullptr;
        }
        // The planes are laid out only once the file has shown that it may hold so many blocks.
        Status laid_out;
        if (scan_index == 0) laid_out = tools_.reconstructor.prepare(header_->frame, header_->color, region);
        return laid_out.is_ok() ? decode_rows(scan, index) : laid_out;
    });
    if (status.is_ok() && !is_single_pass()) complete_all_rows();
    return status;
}

// True if rows can be finished as they are decoded.
bool SequentialFrame::is_single_pass() const noexcept {
    return header_->first_scan.component_count == header_->frame.component_count && header_->frame.component_count > 1;
}

void SequentialFrame::complete_all_rows() noexcept {
    const McuWindow& window = tools_.reconstructor.window();
    for (std::int32_t row = window.top; row < window.bottom; ++row) tools_.reconstructor.mcu_row_is_complete(row);
}

Status SequentialFrame::read_scan_data(const Scan& scan, std::size_t* end_offset) noexcept {
    const std::uint32_t mcu_count = ScanGrid(header_->frame, scan, McuWindow{}).mcu_count();
    ScanData data;
    const Status status =
        tools_.reader.read(file_, scan.data_offset, mcu_count, tables_.restart_interval, &data, end_offset);
    if (!status.is_ok()) return status;
    keep_quantization(scan);
    plan_blocks(scan, data, mcu_count);
    // A block takes at least two bits, one for each of its two codes.
    const auto block_count = static_cast<std::uint64_t>(mcu_count) * static_cast<unsigned>(entropy_.block_count());
    if (block_count > static_cast<std::uint64_t>(data.size) * 4) {
        return Status::irregular("a scan has not enough data for its blocks", *end_offset);
    }
    return Status::ok();
}

void SequentialFrame::plan_blocks(const Scan& scan, const ScanData& data, std::uint32_t mcu_count) noexcept {
    entropy_.begin(data, mcu_count, tables_.restart_interval, tools_.kernels, scan.data_offset);
    for (int i = 0; i < scan.component_count; ++i) {
        const ScanComponent& component = scan.components[i];
        ScanBlock block;
        block.dc = tools_.tables.dc[component.dc_slot].table();
        block.ac = tools_.tables.ac[component.ac_slot].table();
        block.quantization = quantization_[component.component].values;
        block.prediction = i;
        const int count = BlocksOfMcu(header_->frame, scan, i).count();
        for (int n = 0; n < count; ++n) entropy_.add_block(block);
    }
}

// Points the blocks of the window's first MCU in this row of MCUs to their outputs, in stream order.
void SequentialFrame::set_outputs(const Scan& scan, std::int32_t mcu_row) noexcept {
    const McuWindow& window = tools_.reconstructor.window();
    ScanBlock* block = entropy_.blocks();
    for (int i = 0; i < scan.component_count; ++i) {
        const BlocksOfMcu blocks(header_->frame, scan, i);
        const int component = scan.components[i].component;
        const std::int32_t left = window.left * header_->frame.components[component].horizontal;
        for (int y = 0; y < blocks.vertical; ++y) {
            for (int x = 0; x < blocks.horizontal; ++x, ++block) {
                block->output = tools_.reconstructor.block(component, left + x, mcu_row * blocks.vertical + y);
                block->mcu_stride_bytes = static_cast<std::size_t>(blocks.horizontal) * kSampleBlockBytes;
            }
        }
    }
}

// Points the blocks of this row of MCUs to the packed rows in memory, as the row numbered `kept_row`.
void SequentialFrame::restart_rows(const Scan& scan, std::int32_t mcu_row, std::int32_t kept_row) noexcept {
    ScanBlock* block = entropy_.blocks();
    for (int i = 0; i < scan.component_count; ++i) {
        const BlocksOfMcu blocks(header_->frame, scan, i);
        const int component = scan.components[i].component;
        const FrameComponent& facts = header_->frame.components[component];
        for (int y = 0; y < blocks.vertical; ++y) {
            const bool is_there = mcu_row * blocks.vertical + y < facts.blocks_high;
            PackedRow* const row =
                rows_.restart(component, kept_row * blocks.vertical + y, is_there ? facts.blocks_wide : 0);
            for (int x = 0; x < blocks.horizontal; ++x, ++block) block->row = row;
        }
    }
}

Status SequentialFrame::decode_rows(const Scan& scan, EntropyIndex* index) noexcept {
    const McuWindow& window = tools_.reconstructor.window();
    const ScanGrid grid(header_->frame, scan, window);
    const auto wide = static_cast<std::uint32_t>(grid.wide);
    const auto left = static_cast<std::uint32_t>(grid.window.left);
    const auto top = static_cast<std::uint32_t>(grid.window.top);
    const auto bottom = static_cast<std::uint32_t>(grid.window.bottom);
    const bool is_recording =
        index != nullptr && index->is_worth_a_record(bottom - std::min(bottom, index->rows_known()));
    IndexedWalk walk(entropy_, index, is_recording);
    Status status = walk.walk_to(top * wide);
    for (std::uint32_t row = top; status.is_ok() && row < bottom; ++row) {
        status = walk.walk_to(row * wide + left);
        if (!status.is_ok()) break;
        set_outputs(scan, static_cast<std::int32_t>(row));
        status = walk.decode(static_cast<std::uint32_t>(grid.window.right) - left);
        if (status.is_ok()) status = walk.leave_row((row + 1) * wide, row + 1 == bottom);
        if (status.is_ok() && is_single_pass()) {
            tools_.reconstructor.mcu_row_is_complete(static_cast<std::int32_t>(row));
        }
    }
    has_relied_ = walk.has_relied();
    return status.is_ok() ? entropy_.finish() : status;
}

Status SequentialFrame::extend(ByteSpan file, const Header& header, std::uint32_t rows, EntropyIndex* index,
                               ScanData* data) noexcept {
    begin(file, header);
    return for_each_scan(data_reader(), [&](const Scan&, int) {
        if (!index->accepts(entropy_.data().size)) return Status::irregular("an index of other data", 0);
        *data = entropy_.data();
        const Status status = IndexedWalk(entropy_, index, true).walk_to(rows * index->shape().mcus_wide);
        return status.is_ok() ? entropy_.finish() : status;
    });
}

// If scans have one component each, all rows are kept until the last scan.
Status SequentialFrame::read(ByteSpan file, const Header& header, CoefficientWriter* writer) noexcept {
    begin(file, header);
    const Frame& frame = header.frame;
    Status status = for_each_scan(data_reader(), [&](const Scan& scan, int scan_index) {
        Status laid_out;
        if (scan_index == 0) {
            laid_out = rows_.begin(frame, is_single_pass() ? 1 : frame.mcus_high, limits_.max_coefficient_bytes);
            if (laid_out.is_ok()) laid_out = writer->begin(frame, header.color);
        }
        return laid_out.is_ok() ? pack_rows(scan, writer) : laid_out;
    });
    for (std::int32_t row = 0; status.is_ok() && !is_single_pass() && row < frame.mcus_high; ++row) {
        status = add_rows(row, row, writer);
    }
    for (int i = 0; i < frame.component_count; ++i) writer->set_quantization(i, quantization_[i]);
    return status;
}

Status SequentialFrame::pack_rows(const Scan& scan, CoefficientWriter* writer) noexcept {
    const ScanGrid grid(header_->frame, scan, McuWindow{});
    Status status;
    for (std::int32_t row = 0; status.is_ok() && row < grid.high; ++row) {
        restart_rows(scan, row, is_single_pass() ? 0 : row);
        status = entropy_.pack(static_cast<std::uint32_t>(grid.wide));
        if (status.is_ok() && is_single_pass()) status = add_rows(row, 0, writer);
    }
    return status.is_ok() ? entropy_.finish() : status;
}

// Writes an MCU row, which is row `kept_row` in memory.
Status SequentialFrame::add_rows(std::int32_t mcu_row, std::int32_t kept_row, CoefficientWriter* writer) noexcept {
    for (int i = 0; i < header_->frame.component_count; ++i) {
        const FrameComponent& component = header_->frame.components[i];
        for (int y = 0; y < component.vertical; ++y) {
            const bool is_there = mcu_row * component.vertical + y < component.blocks_high;
            ByteSpan packed;
            Status status = is_there ? rows_.find(i, kept_row * component.vertical + y, &packed) : Status::ok();
            if (status.is_ok()) status = writer->add_packed(packed);
            if (!status.is_ok()) return status;
        }
    }
    return Status::ok();
}

}  // namespace fastload::jpeg

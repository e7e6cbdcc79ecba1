#include "codec/jpeg/scan_data.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace fastload::jpeg {
namespace {

// In the order of ScanEnd.
constexpr const char* kScanFaults[] = {"", "the file ends inside a scan", "a restart marker out of order",
                                       "a restart marker too many", "fill bytes in a scan"};
static_assert(std::size(kScanFaults) == static_cast<std::size_t>(ScanEnd::kFillBytes) + 1);

}  // namespace

const char* segment_end_fault(std::uint64_t used_bits, std::size_t segment_end, bool is_complete) noexcept {
    const std::uint64_t end_bits = static_cast<std::uint64_t>(segment_end) * 8;
    if (used_bits > end_bits) return "the data of a segment end before its last block";
    if (is_complete && end_bits - used_bits >= 8) return "unused bytes at the end of a segment";
    return nullptr;
}

Status ScanReader::read(ByteSpan file, std::size_t data_offset, std::uint32_t mcu_count, std::uint32_t restart_interval,
                        ScanData* data, std::size_t* end_offset) noexcept {
    const std::size_t restart_count = restart_interval == 0 ? 0 : (mcu_count - 1) / restart_interval;
    const ByteSpan source = file.subspan(data_offset, file.size() - data_offset);
    // Each takes two bytes, so a file cannot make this buffer much larger than itself.
    if (restart_count > source.size() / 2) return Status::irregular("restart markers are missing", data_offset);
    Status status = clean_.reserve(source.size() + kReaderPaddingBytes);
    if (status.is_ok()) status = restart_offsets_.reserve(restart_count * sizeof(std::uint32_t));
    if (!status.is_ok()) return status;
    auto* const offsets = reinterpret_cast<std::uint32_t*>(restart_offsets_.data());
    const UnstuffedScan scan = unstuff(source, clean_.data(), {offsets, restart_count});
    *end_offset = data_offset + scan.source_bytes;
    if (scan.end != ScanEnd::kMarker) {
        return Status::irregular(kScanFaults[static_cast<std::size_t>(scan.end)], *end_offset);
    }
    if (scan.restart_count != restart_count) return Status::irregular("restart markers are missing", *end_offset);
    std::memset(clean_.data() + scan.clean_bytes, 0, kReaderPaddingBytes);
    *data = {clean_.data(), scan.clean_bytes, {offsets, restart_count}};
    return Status::ok();
}

void SegmentWalk::begin(const ScanData& data, std::uint32_t mcu_count, std::uint32_t restart_interval,
                        std::uint64_t file_offset) noexcept {
    data_ = data;
    file_offset_ = file_offset;
    mcu_count_ = mcu_count;
    mcus_left_ = mcu_count;
    mcus_left_in_segment_ = 0;
    restart_interval_ = restart_interval == 0 ? mcu_count : restart_interval;
    next_segment_ = 0;
    is_in_segment_ = false;
    reader_ = BitReader(data.bytes);
}

Status SegmentWalk::irregular(const char* detail) const noexcept {
    // Exact except for the stuffing, about one byte in 300.
    return Status::irregular(detail, file_offset_ + reader_.position_bits(data_.bytes) / 8);
}

Status SegmentWalk::finish() const noexcept {
    if (!is_in_segment_) return Status::ok();
    const char* const fault = segment_end_fault(reader_.position_bits(data_.bytes),
                                                data_.segment_end(next_segment_ - 1), mcus_left_in_segment_ == 0);
    return fault == nullptr ? Status::ok() : irregular(fault);
}

void SegmentWalk::start_segment() noexcept {
    reader_ = BitReader(data_.bytes + data_.segment_begin(next_segment_));
    reader_.refill();
    ++next_segment_;
    is_in_segment_ = true;
    std::memset(predictions_, 0, sizeof(predictions_));
    mcus_left_in_segment_ = std::min(restart_interval_, mcus_left_);
}

}  // namespace fastload::jpeg

#include "codec/jpeg/record_reader.h"

#include <algorithm>

#include "codec/jpeg/reconstruct.h"
#include "kernels/coefficients.h"

namespace fastload::jpeg {
namespace {

constexpr Status kUnread = {StatusCode::kReadFailed, 0, 0, "a coefficient record cannot be read"};
constexpr Status kCutShort = Status::irregular("a coefficient record is cut short", 0);

template <typename T>
T number_at(ByteSpan bytes, std::size_t at) {
    T number;
    std::memcpy(&number, bytes.data() + at, sizeof number);
    return number;
}

bool is_color_of(ColorModel color, int component_count) {
    return component_count == 1 ? color == ColorModel::kGray
                                : component_count == 3 && (color == ColorModel::kYcc || color == ColorModel::kRgb);
}

Status find_frame(const CoefficientHead& head, const DecodeLimits& limits, Frame* frame) {
    *frame = {};
    if (!is_color_of(head.color, head.component_count)) return Status::irregular("no head of a coefficient record", 0);
    frame->size = {head.width, head.height};
    frame->component_count = head.component_count;
    for (int i = 0; i < frame->component_count; ++i) {
        frame->components[i].horizontal = head.factors[i] >> 4;
        frame->components[i].vertical = head.factors[i] & 15;
    }
    return complete_frame(limits, 0, frame);
}

}  // namespace

Status RecordReader::find_head_bytes(ByteSpan beginning, const DecodeLimits& limits, std::size_t* bytes) noexcept {
    if (beginning.size() < sizeof(CoefficientHead)) return kCutShort;
    Frame frame;
    const Status status = find_frame(number_at<CoefficientHead>(beginning, 0), limits, &frame);
    if (status.is_ok()) *bytes = CoefficientLayout(frame).bytes();
    return status;
}

Status RecordReader::open(RecordBytes* bytes, const HashKey& key, std::uint64_t salt, const DecodeLimits& limits,
                          ReadPart part) noexcept {
    bytes_ahead_ = 0;
    const Status status = part == ReadPart::kAll ? read_all(bytes, limits) : read_head(bytes, limits);
    return status.is_ok() ? check_head(key, salt, limits) : status;
}

Status RecordReader::read_head(RecordBytes* bytes, const DecodeLimits& limits) noexcept {
    const auto first_bytes = static_cast<std::size_t>(std::min<std::uint64_t>(bytes->size(), kFirstBytes));
    Status status = head_buffer_.reserve(kFirstBytes);
    if (!status.is_ok()) return status;
    if (!bytes->read(0, {head_buffer_.data(), first_bytes})) return kUnread;
    std::size_t head_bytes = 0;
    status = find_head_bytes({head_buffer_.data(), first_bytes}, limits, &head_bytes);
    if (!status.is_ok()) return status;
    if (head_bytes > bytes->size()) return kCutShort;
    if (head_bytes > first_bytes) {
        status = head_buffer_.reserve(head_bytes);
        if (!status.is_ok()) return status;
        if (!bytes->read(0, {head_buffer_.data(), head_bytes})) return kUnread;
    }
    head_bytes_ = {head_buffer_.data(), head_bytes};
    return Status::ok();
}

Status RecordReader::read_all(RecordBytes* bytes, const DecodeLimits& limits) noexcept {
    if (const Status status = fill_row_buffer(bytes, 0, bytes->size()); !status.is_ok()) return status;
    const ByteSpan record(row_buffer_.data(), static_cast<std::size_t>(bytes->size()));
    std::size_t head_bytes = 0;
    if (const Status status = find_head_bytes(record, limits, &head_bytes); !status.is_ok()) return status;
    if (head_bytes > record.size()) return kCutShort;
    head_bytes_ = record.subspan(0, head_bytes);
    bytes_ahead_ = record.size();
    return Status::ok();
}

Status RecordReader::check_head(const HashKey& key, std::uint64_t salt, const DecodeLimits& limits) noexcept {
    head_ = number_at<CoefficientHead>(head_bytes_, 0);
    if (const Status status = find_frame(head_, limits, &frame_); !status.is_ok()) return status;
    const CoefficientLayout layout(frame_);
    const std::size_t check = layout.check();
    if (head_bytes_.size() != layout.bytes() ||
        number_at<std::uint64_t>(head_bytes_, check) != coefficient_check(key, salt, head_bytes_.subspan(0, check))) {
        return Status::irregular("the check of a coefficient record does not hold", 0);
    }
    for (int i = 0; i < frame_.component_count; ++i) {
        std::memcpy(quantization_[i].values, head_.quantization[i], sizeof head_.quantization[i]);
    }
    return Status::ok();
}

Status RecordReader::fill_row_buffer(RecordBytes* bytes, std::uint64_t offset, std::uint64_t size) noexcept {
    const auto length = static_cast<std::size_t>(size);
    if (const Status status = row_buffer_.reserve(length + kPackedSlackBytes); !status.is_ok()) return status;
    return bytes->read(offset, {row_buffer_.data(), length}) ? Status::ok() : kUnread;
}

std::uint32_t RecordReader::offset_at(std::int32_t mcu_row, int component, int block_row) const noexcept {
    return number_at<std::uint32_t>(head_bytes_, CoefficientLayout(frame_).offset(mcu_row, component, block_row));
}

// False if the table cannot be true.
bool RecordReader::find_rows(const Region& region) noexcept {
    const McuWindow window = decode_window(frame_, region);
    std::uint32_t begin = offset_at(window.top, 0, 0);
    rows_.first = window.top;
    rows_.end = window.bottom;
    rows_.offset = head_bytes_.size() + begin;
    for (std::int32_t row = window.top; row < window.bottom; ++row) {
        for (int i = 0; i < frame_.component_count; ++i) {
            for (int block_row = 1; block_row <= frame_.components[i].vertical; ++block_row) {
                const std::uint32_t end = offset_at(row, i, block_row);
                if (end < begin) return false;
                begin = end;
            }
        }
    }
    rows_.bytes = head_bytes_.size() + begin - rows_.offset;
    return rows_.offset + rows_.bytes <= kMaxCoefficientRecordBytes;
}

// True if the rows' bytes are the ones that were written.
bool RecordReader::do_sums_hold(const HashKey& key) const noexcept {
    const CoefficientLayout layout(frame_);
    for (std::int32_t row = rows_.first; row < rows_.end; ++row) {
        const std::uint32_t begin = offset_at(row, 0, 0);
        const ByteSpan bytes(row_bytes_ + (begin - offset_at(rows_.first, 0, 0)), offset_at(row + 1, 0, 0) - begin);
        if (content_sum(key, bytes) != number_at<std::uint64_t>(head_bytes_, layout.sum(row))) return false;
    }
    return true;
}

Status RecordReader::read_rows(RecordBytes* bytes, const HashKey& key, const Region& region) noexcept {
    if (!find_rows(region) || rows_.offset + rows_.bytes > bytes->size()) return kCutShort;
    const bool is_ahead = bytes_ahead_ != 0;
    if (!is_ahead) {
        if (const Status status = fill_row_buffer(bytes, rows_.offset, rows_.bytes); !status.is_ok()) return status;
    }
    row_bytes_ = row_buffer_.data() + (is_ahead ? rows_.offset : 0);
    if (!do_sums_hold(key)) return Status::irregular("the sum of a coefficient record's row does not hold", 0);
    return Status::ok();
}

ByteSpan RecordReader::block_row(std::int32_t mcu_row, int component, int block_row) const noexcept {
    const std::uint32_t begin = offset_at(mcu_row, component, block_row);
    const std::uint32_t end = offset_at(mcu_row, component, block_row + 1);
    return {row_bytes_ + (begin - offset_at(rows_.first, 0, 0)), end - begin};
}

void RecordReader::release_scratch(ScratchRule rule) noexcept {
    head_buffer_.release(rule);
    row_buffer_.release(rule);
}

}  // namespace fastload::jpeg

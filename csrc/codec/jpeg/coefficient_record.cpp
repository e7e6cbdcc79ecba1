#include "codec/jpeg/coefficient_record.h"

#include <cstring>

#include "codec/jpeg/reconstruct.h"

namespace fastload::jpeg {
namespace {

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

Status CoefficientRecord::find_head_bytes(ByteSpan beginning, const DecodeLimits& limits, std::size_t* bytes) noexcept {
    if (beginning.size() < sizeof(CoefficientHead)) return Status::irregular("a coefficient record is cut short", 0);
    Frame frame;
    const Status status = find_frame(number_at<CoefficientHead>(beginning, 0), limits, &frame);
    if (status.is_ok()) *bytes = CoefficientLayout(frame).bytes();
    return status;
}

Status CoefficientRecord::open(ByteSpan head, const HashKey& key, std::uint64_t salt,
                               const DecodeLimits& limits) noexcept {
    std::size_t head_bytes = 0;
    if (const Status status = find_head_bytes(head, limits, &head_bytes); !status.is_ok()) return status;
    bytes_ = head;
    head_ = number_at<CoefficientHead>(head, 0);
    static_cast<void>(find_frame(head_, limits, &frame_));
    const std::size_t check = CoefficientLayout(frame_).check();
    if (head.size() != head_bytes ||
        number_at<std::uint64_t>(head, check) != coefficient_check(key, salt, head.subspan(0, check))) {
        return Status::irregular("the check of a coefficient record does not hold", 0);
    }
    for (int i = 0; i < frame_.component_count; ++i) {
        std::memcpy(quantization_[i].values, head_.quantization[i], sizeof head_.quantization[i]);
    }
    return Status::ok();
}

std::uint32_t CoefficientRecord::offset_at(std::int32_t mcu_row, int component, int block_row) const noexcept {
    return number_at<std::uint32_t>(bytes_, CoefficientLayout(frame_).offset(mcu_row, component, block_row));
}

bool CoefficientRecord::find_rows(const Region& region, RecordRows* rows) const noexcept {
    const McuWindow window = decode_window(frame_, region);
    std::uint32_t begin = offset_at(window.top, 0, 0);
    rows->first = window.top;
    rows->end = window.bottom;
    rows->offset = bytes_.size() + begin;
    for (std::int32_t row = window.top; row < window.bottom; ++row) {
        for (int i = 0; i < frame_.component_count; ++i) {
            for (int block_row = 1; block_row <= frame_.components[i].vertical; ++block_row) {
                const std::uint32_t end = offset_at(row, i, block_row);
                if (end < begin) return false;
                begin = end;
            }
        }
    }
    rows->bytes = bytes_.size() + begin - rows->offset;
    return rows->offset + rows->bytes <= kMaxCoefficientRecordBytes;
}

bool CoefficientRecord::holds(const RecordRows& rows, ByteSpan bytes, const HashKey& key) const noexcept {
    const std::uint64_t first = offset_at(rows.first, 0, 0);
    const CoefficientLayout layout(frame_);
    for (std::int32_t row = rows.first; row < rows.end; ++row) {
        const std::uint64_t begin = offset_at(row, 0, 0);
        const ByteSpan row_bytes = bytes.subspan(begin - first, offset_at(row + 1, 0, 0) - begin);
        if (content_sum(key, row_bytes) != number_at<std::uint64_t>(bytes_, layout.sum(row))) return false;
    }
    return true;
}

ByteSpan CoefficientRecord::block_row(const RecordRows& rows, ByteSpan bytes, std::int32_t mcu_row, int component,
                                      int block_row) const noexcept {
    const std::uint32_t begin = offset_at(mcu_row, component, block_row);
    const std::uint32_t end = offset_at(mcu_row, component, block_row + 1);
    return bytes.subspan(begin - offset_at(rows.first, 0, 0), end - begin);
}

}  // namespace fastload::jpeg

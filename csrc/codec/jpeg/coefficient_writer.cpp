#include "codec/jpeg/coefficient_writer.h"

#include <cstring>
#include <new>

namespace fastload::jpeg {
namespace {

constexpr Status kNoMemory = {StatusCode::kOutOfMemory, 0, 0, "no memory for a coefficient record"};

template <typename T>
void set_number(std::vector<std::uint8_t>* bytes, std::size_t at, T number) {
    std::memcpy(bytes->data() + at, &number, sizeof number);
}

}  // namespace

Status CoefficientWriter::begin(const Frame& frame, ColorModel color) noexcept {
    frame_ = frame;
    head_ = {};
    head_.width = frame.size.width;
    head_.height = frame.size.height;
    head_.color = color;
    head_.component_count = static_cast<std::uint8_t>(frame.component_count);
    for (int i = 0; i < frame.component_count; ++i) {
        head_.factors[i] =
            static_cast<std::uint8_t>(frame.components[i].horizontal << 4 | frame.components[i].vertical);
    }
    const CoefficientLayout layout(frame);
    next_offset_ = layout.offset(0, 0, 0);
    try {
        record_.assign(layout.bytes() + kPackedSlackBytes, 0);
    } catch (const std::bad_alloc&) {
        return kNoMemory;
    }
    note_offset();
    return Status::ok();
}

void CoefficientWriter::note_offset() noexcept {
    const auto offset = static_cast<std::uint32_t>(size() - CoefficientLayout(frame_).bytes());
    set_number(&record_, next_offset_, offset);
    next_offset_ += sizeof offset;
}

Status CoefficientWriter::add(const std::int16_t* blocks, std::size_t count) noexcept {
    if (const Status status = packed_.reserve(count * kMaxPackedBlockBytes + kPackedSlackBytes); !status.is_ok()) {
        return status;
    }
    const std::uint8_t* const end = kernels_.pack_blocks(blocks, count, packed_.data());
    if (end == nullptr) return Status::irregular("a DC coefficient of more than 12 bits", 0);
    return add_packed({packed_.data(), static_cast<std::size_t>(end - packed_.data())});
}

Status CoefficientWriter::add_packed(ByteSpan packed) noexcept {
    if (size() + packed.size() > kMaxCoefficientRecordBytes) {
        return {StatusCode::kLimitExceeded, 0, 0, "a coefficient record above the limit"};
    }
    try {
        record_.insert(record_.end() - kPackedSlackBytes, packed.begin(), packed.end());
    } catch (const std::bad_alloc&) {
        return kNoMemory;
    }
    note_offset();
    return Status::ok();
}

void CoefficientWriter::set_quantization(int component, const QuantizationTable& table) noexcept {
    std::memcpy(head_.quantization[component], table.values, sizeof head_.quantization[component]);
}

ByteSpan CoefficientWriter::finish(const HashKey& key, std::uint64_t salt, const RecordStamp& stamp) noexcept {
    const CoefficientLayout layout(frame_);
    const ByteSpan bytes(record_.data(), size());
    const auto begin_of = [&](std::int32_t mcu_row) {
        std::uint32_t offset = 0;
        std::memcpy(&offset, record_.data() + layout.offset(mcu_row, 0, 0), sizeof offset);
        return layout.bytes() + offset;
    };
    for (std::int32_t row = 0; row < frame_.mcus_high; ++row) {
        const std::size_t begin = begin_of(row);
        const ByteSpan row_bytes = bytes.subspan(begin, begin_of(row + 1) - begin);
        set_number(&record_, layout.sum(row), content_sum(key, row_bytes));
    }
    head_.stamp = stamp;
    set_number(&record_, 0, head_);
    set_number(&record_, layout.check(), coefficient_check(key, salt, bytes.subspan(0, layout.check())));
    return bytes;
}

void CoefficientWriter::release_scratch(ScratchRule rule) noexcept {
    packed_.release(rule);
    if (record_.capacity() > AlignedBuffer::kMaxKeptBytes) std::vector<std::uint8_t>().swap(record_);
}

}  // namespace fastload::jpeg

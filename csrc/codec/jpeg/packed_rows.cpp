#include "codec/jpeg/packed_rows.h"

#include <new>

#include "kernels/coefficients.h"

namespace fastload::jpeg {
// A side has at most 65500 samples, and factors are at most 4: no product here overflows.
Status PackedRows::begin(const Frame& frame, std::int32_t mcu_rows, std::uint64_t max_bytes) noexcept {
    std::size_t rows = 0;
    std::size_t bytes = 0;
    for (int i = 0; i < frame.component_count; ++i) {
        const FrameComponent& component = frame.components[i];
        const std::size_t count = as_size(mcu_rows) * as_size(component.vertical);
        places_[i] = {rows, bytes, as_size(component.blocks_wide) * kMaxPackedBlockBytes + kPackedSlackBytes};
        rows += count;
        bytes += count * places_[i].row_bytes;
    }
    if (bytes > max_bytes) return {StatusCode::kLimitExceeded, 0, 0, "more coefficients than the limit"};
    try {
        rows_.assign(rows, {});
    } catch (const std::bad_alloc&) {
        return {StatusCode::kOutOfMemory, 0, 0, "no memory for the rows of a coefficient record"};
    }
    return bytes_.reserve(bytes);
}

std::size_t PackedRows::number_of(int component, std::int32_t block_row) const noexcept {
    return places_[component].first_row + as_size(block_row);
}

std::uint8_t* PackedRows::begin_of(int component, std::int32_t block_row) const noexcept {
    return bytes_.data() + places_[component].begin + as_size(block_row) * places_[component].row_bytes;
}

PackedRow* PackedRows::restart(int component, std::int32_t block_row, std::int32_t blocks) noexcept {
    PackedRow& row = rows_[number_of(component, block_row)];
    row = {begin_of(component, block_row), blocks};
    return &row;
}

Status PackedRows::find(int component, std::int32_t block_row, ByteSpan* packed) const noexcept {
    const std::uint8_t* const end = rows_[number_of(component, block_row)].next;
    if (end == nullptr) return Status::irregular("a DC coefficient of more than 12 bits", 0);
    const std::uint8_t* const begin = begin_of(component, block_row);
    *packed = {begin, static_cast<std::size_t>(end - begin)};
    return Status::ok();
}

}  // namespace fastload::jpeg

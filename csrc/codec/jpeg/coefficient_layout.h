// The form in which a file's coefficients are kept, so that reading them costs less than entropy decoding.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/content_hash.h"
#include "base/span.h"
#include "codec/jpeg/markers.h"

namespace fastload::jpeg {

// Note [coefficient records]
// A record holds the quantised coefficients of a whole file: a head, a table, and packed blocks (Note [packed blocks])
// MCU row by MCU row, in each of them component by component, block row by block row. It has only the blocks that a
// component has, because no pixel depends on blocks that fill up MCUs. Sequential and progressive files have the same
// layout. The table has a sum for each MCU row, and an offset for each block row, so that a region is read without the
// rows above and below it. A check over head and table follows them. Numbers are in the machine's byte order.
//
// The sums and the check prove that the bytes were written under this key. Whatever values the bytes have, blocks
// expand to something inside of the requested block row.

// A larger file has no record.
constexpr std::uint64_t kMaxCoefficientRecordBytes = std::uint64_t{32} << 20;

struct CoefficientHead {
    RecordStamp stamp = {};
    std::int32_t width = 0;
    std::int32_t height = 0;
    ColorModel color = ColorModel::kGray;
    std::uint8_t component_count = 0;
    std::uint8_t factors[kMaxComponents] = {};            // horizontal << 4 | vertical; 0 after the last component
    std::uint8_t reserved[3] = {};                        // 0
    std::uint16_t quantization[kMaxComponents][64] = {};  // zigzag order; 0 after the last component
};
static_assert(sizeof(CoefficientHead) == 464);

inline std::uint64_t coefficient_check(const HashKey& key, std::uint64_t salt, ByteSpan head) noexcept {
    return content_sum(key, head) ^ salt;
}

// The positions of a record's parts that follow CoefficientHead.
class CoefficientLayout {
  public:
    explicit CoefficientLayout(const Frame& frame) noexcept : mcu_rows_(static_cast<std::size_t>(frame.mcus_high)) {
        for (int i = 0; i < frame.component_count; ++i) {
            first_block_row_[i] = block_rows_;
            block_rows_ += static_cast<std::size_t>(frame.components[i].vertical);
        }
    }

    // The position of the sum of an MCU row's bytes.
    std::size_t sum(std::int32_t mcu_row) const noexcept {
        return sizeof(CoefficientHead) + sizeof(std::uint64_t) * static_cast<std::size_t>(mcu_row);
    }
    // The position of the offset, from bytes(), of a component's block row in an MCU row. The next entry says where its
    // blocks end; after the last block row of the last component that is the first entry of the next MCU row.
    std::size_t offset(std::int32_t mcu_row, int component, int block_row) const noexcept {
        return offset(static_cast<std::size_t>(mcu_row) * block_rows_ + first_block_row_[component] +
                      static_cast<std::size_t>(block_row));
    }
    std::size_t check() const noexcept {
        constexpr std::size_t kAlignment = sizeof(std::uint64_t);
        return (offset(mcu_rows_ * block_rows_ + 1) + kAlignment - 1) / kAlignment * kAlignment;
    }
    // The size of everything before the blocks.
    std::size_t bytes() const noexcept { return check() + sizeof(std::uint64_t); }

  private:
    std::size_t offset(std::size_t entry) const noexcept {
        return sizeof(CoefficientHead) + sizeof(std::uint64_t) * mcu_rows_ + sizeof(std::uint32_t) * entry;
    }

    std::size_t mcu_rows_;
    std::size_t block_rows_ = 0;  // in an MCU row
    std::size_t first_block_row_[kMaxComponents] = {};
};

}  // namespace fastload::jpeg

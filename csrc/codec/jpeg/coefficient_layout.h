// The form in which a file's coefficients are kept, so that reading them costs less than entropy decoding.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/content_hash.h"
#include "base/record_stamp.h"
#include "base/span.h"
#include "codec/jpeg/markers.h"

namespace fastload::jpeg {

// Note [coefficient records]
// A record holds the quantised coefficients of a whole file: a head, a table, and packed blocks (Note [packed blocks])
// MCU row by MCU row, in each of them component by component, block row by block row; only blocks that a component has,
// since no pixel depends on those that fill up MCUs. One layout for sequential and progressive files. The table has a
// sum for each MCU row, and an offset for each block row, so that a region is read without what is above and below it.
// A check over head and table stands behind them. Numbers are in the order of the machine's bytes.
//
// The sums and the check say that bytes are those that were written under this key. Whatever else they say, blocks
// expand to something inside of the block row that they are asked for.

// Beyond it a file has no record.
constexpr std::uint64_t kMaxCoefficientRecordBytes = std::uint64_t{32} << 20;

struct CoefficientHead {
    RecordStamp stamp = {};
    std::int32_t width = 0;
    std::int32_t height = 0;
    ColorModel color = ColorModel::kGray;
    std::uint8_t component_count = 0;
    std::uint8_t factors[kMaxComponents] = {};            // horizontal << 4 | vertical; 0 behind the components
    std::uint8_t reserved[3] = {};                        // 0
    std::uint16_t quantization[kMaxComponents][64] = {};  // zigzag order; 0 behind the components
};
static_assert(sizeof(CoefficientHead) == 464);

inline std::uint64_t coefficient_check(const HashKey& key, std::uint64_t salt, ByteSpan head) noexcept {
    return content_sum(key, head) ^ salt;
}

// Where in a record what lies that stands behind CoefficientHead.
class CoefficientLayout {
  public:
    explicit CoefficientLayout(const Frame& frame) noexcept : mcu_rows_(static_cast<std::size_t>(frame.mcus_high)) {
        for (int i = 0; i < frame.component_count; ++i) {
            first_block_row_[i] = block_rows_;
            block_rows_ += static_cast<std::size_t>(frame.components[i].vertical);
        }
    }

    // Of an MCU row's bytes.
    std::size_t sum(std::int32_t mcu_row) const noexcept {
        return sizeof(CoefficientHead) + sizeof(std::uint64_t) * static_cast<std::size_t>(mcu_row);
    }
    // Of a component's block row in an MCU row: how far behind bytes() its blocks begin. The next entry, which is the
    // next MCU row's first one behind the last component's last block row, says where they end.
    std::size_t offset(std::int32_t mcu_row, int component, int block_row) const noexcept {
        return offset(static_cast<std::size_t>(mcu_row) * block_rows_ + first_block_row_[component] +
                      static_cast<std::size_t>(block_row));
    }
    std::size_t check() const noexcept {
        constexpr std::size_t kAlignment = sizeof(std::uint64_t);
        return (offset(mcu_rows_ * block_rows_ + 1) + kAlignment - 1) / kAlignment * kAlignment;
    }
    // All in front of the blocks.
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

// Decodes the entropy-coded blocks of one scan of a sequential file, with the inverse DCT one block late.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "codec/jpeg/entropy_index.h"
#include "codec/jpeg/huffman_table.h"
#include "codec/jpeg/packed_rows.h"
#include "codec/jpeg/scan_data.h"
#include "kernels/kernel_table.h"

namespace fastload::jpeg {

// One block of an MCU. The tables are the caller's and outlive the scan.
struct ScanBlock {
    const DcTable* dc = nullptr;
    const AcTable* ac = nullptr;
    const std::uint16_t* quantization = nullptr;
    int prediction = 0;  // index of the component in the scan
    // For decode(): the position of the samples of the current row's first MCU in the window.
    std::uint8_t* output = nullptr;
    std::size_t mcu_stride_bytes = 0;
    PackedRow* row = nullptr;  // for pack()
};

class EntropyScan : public SegmentWalk {
    // The form that blocks are turned into.
    enum class Target : std::uint8_t { kNone, kSamples, kPacked };

  public:
    // `restart_interval` in MCUs, 0 for none. `file_offset` is only for messages.
    void begin(const ScanData& data, std::uint32_t mcu_count, std::uint32_t restart_interval,
               const KernelTable& kernels, std::uint64_t file_offset) noexcept;

    // Adds the next block of an MCU, at most kMaxBlocksPerMcu after begin().
    void add_block(const ScanBlock& block) noexcept { blocks_[block_count_++] = block; }
    // The blocks of an MCU in stream order. The caller sets their outputs before every row that is kept.
    ScanBlock* blocks() noexcept { return blocks_; }
    int block_count() const noexcept { return block_count_; }

    // Reads the next `count` MCUs without inverse DCT or output. Segments between restart markers that lie completely
    // in them are not even read: if one is damaged, libjpeg is in step again at the marker after it.
    Status walk(std::uint32_t count) noexcept { return run<Target::kNone>(count); }
    // Decodes the next `count` MCUs: the i-th writes block b to blocks()[b].output + (first + i) * mcu_stride_bytes.
    Status decode(std::uint32_t count, std::uint32_t first = 0) noexcept { return run<Target::kSamples>(count, first); }
    // Packs the next `count` MCUs: block b is appended to blocks()[b].row.
    Status pack(std::uint32_t count) noexcept { return run<Target::kPacked>(count); }

    const ScanData& data() const noexcept { return data_; }
    // The number of the next MCU.
    std::uint32_t next_mcu() const noexcept { return mcu_count_ - mcus_left_; }
    // The position before it, in bits of the data, and the predictions of the scan's components there.
    std::uint64_t position_bits() const noexcept { return reader_.position_bits(data_.bytes); }
    const std::uint32_t* predictions() const noexcept { return predictions_; }
    // Continues from a checkpoint before MCU `mcu`, which lies in the data. False if the scan is already past it.
    bool resume(const Checkpoint& checkpoint, std::uint32_t mcu) noexcept;

  private:
    // Zeros into which the next block is decoded.
    struct alignas(64) BlockBuffer {
        std::int16_t coefficients[kBlockBufferSize];
    };

    template <Target kTarget>
    Status run(std::uint32_t count, std::uint32_t first = 0) noexcept;
    template <Target kTarget>
    bool run_mcus(std::uint32_t first, std::uint32_t count) noexcept;
    template <Target kTarget>
    bool run_mcus_inline(std::uint32_t first, std::uint32_t count) noexcept;
    template <Target kTarget>
    bool run_mcus_bmi2(std::uint32_t first, std::uint32_t count) noexcept;
    std::uint32_t skip_segments(std::uint32_t count) noexcept;

    InverseDctFunction* inverse_dct_ = nullptr;
    PackBlocksFunction* pack_blocks_ = nullptr;
    bool has_bmi2_ = false;
    ScanBlock blocks_[kMaxBlocksPerMcu];
    int block_count_ = 0;
    BlockBuffer buffers_[2] = {};  // Note [delayed transform]
};

}  // namespace fastload::jpeg

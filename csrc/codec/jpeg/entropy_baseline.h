// Decodes the entropy-coded blocks of one scan of a sequential file, with the inverse DCT one block late.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/status.h"
#include "codec/jpeg/bit_reader.h"
#include "codec/jpeg/checkpoint_track.h"
#include "codec/jpeg/entropy_index.h"
#include "codec/jpeg/huffman_table.h"
#include "codec/jpeg/packed_rows.h"
#include "codec/jpeg/scan_data.h"
#include "kernels/kernel_table.h"

namespace fastload::jpeg {

constexpr int kMaxScanBlocks = 10;

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

class EntropyScan {
    // The form that blocks are turned into.
    enum class Target : std::uint8_t { kNone, kSamples, kPacked };

  public:
    // `restart_interval` in MCUs, 0 for none. `file_offset` is only for messages.
    void begin(const ScanData& data, std::uint32_t mcu_count, std::uint32_t restart_interval,
               const KernelTable& kernels, std::uint64_t file_offset) noexcept;

    // Adds the next block of an MCU, at most kMaxScanBlocks after begin().
    void add_block(const ScanBlock& block) noexcept { blocks_[block_count_++] = block; }
    // The blocks of an MCU in stream order. The caller sets their outputs before every row that is kept.
    ScanBlock* blocks() noexcept { return blocks_; }
    int block_count() const noexcept { return block_count_; }

    // Reads the next `count` MCUs without inverse DCT or output. Segments between restart markers that lie completely
    // in them are not even read: if one is damaged, libjpeg is in step again at the marker after it.
    Status walk(std::uint32_t count) noexcept { return run<Target::kNone>(count); }
    // Decodes the next `count` MCUs: the i-th writes block b to blocks()[b].output + i * mcu_stride_bytes.
    Status decode(std::uint32_t count) noexcept { return run<Target::kSamples>(count); }
    // Packs the next `count` MCUs: block b is appended to blocks()[b].row.
    Status pack(std::uint32_t count) noexcept { return run<Target::kPacked>(count); }
    // Call after the last MCU that is wanted. Proves that no bit after the segment's end was used and, if the segment
    // was read completely, that less than a byte of it is left.
    Status finish() const noexcept;

    std::size_t data_bytes() const noexcept { return data_.size; }
    // The number of the next MCU.
    std::uint32_t next_mcu() const noexcept { return mcu_count_ - mcus_left_; }
    // From now on calls track->pass() at its stops. `track` outlives the last walk() or decode() before the next
    // begin().
    void follow(CheckpointTrack* track) noexcept { track_ = track; }
    // Continues from a checkpoint before MCU `mcu`, which lies in the data. False if the scan is already past it.
    bool resume(const Checkpoint& checkpoint, std::uint32_t mcu) noexcept;

  private:
    // Zeros into which the next block is decoded.
    struct alignas(64) BlockBuffer {
        std::int16_t coefficients[kBlockBufferSize];
    };

    template <Target kTarget>
    Status run(std::uint32_t count) noexcept;
    template <Target kTarget>
    bool run_mcus(std::uint32_t first, std::uint32_t count) noexcept;
    template <Target kTarget>
    bool run_mcus_inline(std::uint32_t first, std::uint32_t count) noexcept;
    bool decode_mcus_bmi2(std::uint32_t first, std::uint32_t count) noexcept;
    bool pack_mcus_bmi2(std::uint32_t count) noexcept;
    bool walk_mcus_bmi2(std::uint32_t count) noexcept;
    std::uint32_t mcus_to_stop() const noexcept {
        return track_ == nullptr ? std::numeric_limits<std::uint32_t>::max() : track_->next_stop() - next_mcu();
    }
    Status start_segment() noexcept;
    Status skip_segments(std::uint32_t count, std::uint32_t* skipped) noexcept;
    Status irregular(const char* detail) const noexcept;

    ScanData data_;
    InverseDctFunction* inverse_dct_ = nullptr;
    PackBlocksFunction* pack_blocks_ = nullptr;
    bool has_bmi2_ = false;
    std::uint64_t file_offset_ = 0;
    std::uint32_t mcu_count_ = 0;             // in the scan
    std::uint32_t mcus_left_ = 0;             // in the scan
    std::uint32_t mcus_left_in_segment_ = 0;  // until the next restart
    std::uint32_t restart_interval_ = 0;
    std::size_t next_segment_ = 0;
    std::size_t segment_end_ = 0;  // in clean bytes
    bool is_in_segment_ = false;   // reader_ is in segment next_segment_ - 1, or at its end
    BitReader reader_;
    CheckpointTrack* track_ = nullptr;  // may be null
    ScanBlock blocks_[kMaxScanBlocks];
    int block_count_ = 0;
    std::uint32_t predictions_[kMaxScanBlocks] = {};
    BlockBuffer buffers_[2] = {};  // Note [delayed transform]
};

}  // namespace fastload::jpeg

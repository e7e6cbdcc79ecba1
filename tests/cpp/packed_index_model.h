// Reads a packed entropy index bit by bit, as Note [packed index] describes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "codec/jpeg/entropy_index.h"

namespace fastload::testing {

using Bytes = std::vector<std::uint8_t>;

constexpr std::size_t kPackedHeadBytes = 15;
constexpr std::uint64_t kPackedEscape = 20;

class PackedIndexModel {
  public:
    PackedIndexModel(const jpeg::ScanShape& shape, const Bytes& bytes) : bytes_(bytes) {
        const std::uint64_t revision = byte();
        const std::uint64_t level = byte();
        const auto components = static_cast<int>(byte());
        const std::uint64_t end_bits = word() * 8;
        const std::uint64_t mcus = word();
        const std::uint64_t rows = word();
        if (is_short_ || revision != 2 || (level != 1 && level != 2) || components != shape.component_count ||
            mcus != std::uint64_t{shape.mcus_wide} * shape.mcus_high || rows > shape.mcus_high) {
            return;
        }
        std::vector<std::uint64_t> parameters;
        for (int field = 0; field <= components; ++field) {
            const std::uint64_t parameter = byte();
            parameters.push_back(parameter > 31 ? 31 : parameter);
        }
        const jpeg::CheckpointRule rule(shape, static_cast<jpeg::IndexLevel>(level));
        const std::size_t count = rule.count_in_rows(static_cast<std::uint32_t>(rows));
        for (std::size_t i = 0; i < count; ++i) columns_.push_back(rule.mcu(i) % shape.mcus_wide);
        is_right_ = read_checkpoints(end_bits, parameters);
    }

    bool is_right() const { return is_right_; }
    // Valid if is_right().
    const std::vector<jpeg::Checkpoint>& checkpoints() const { return checkpoints_; }

  private:
    bool read_checkpoints(std::uint64_t end_bits, const std::vector<std::uint64_t>& parameters) {
        for (std::size_t i = 0; i < columns_.size(); ++i) {
            const jpeg::Checkpoint expected = expected_at(i);
            const std::int64_t position = static_cast<std::int64_t>(expected.position_bits) + difference(parameters[0]);
            if (is_short_ || position <= bits_at(i) || position > static_cast<std::int64_t>(end_bits)) return false;
            jpeg::Checkpoint checkpoint;
            checkpoint.position_bits = static_cast<std::uint64_t>(position);
            for (std::size_t c = 0; c + 1 < parameters.size(); ++c) {
                const std::int64_t prediction = expected.predictions[c] + difference(parameters[c + 1]);
                if (prediction < -32768 || prediction > 32767) return false;
                checkpoint.predictions[c] = static_cast<std::int16_t>(prediction);
            }
            checkpoints_.push_back(checkpoint);
        }
        while (!is_short_ && at_ % 8 != 0) {
            if (bit() != 0) return false;
        }
        return !is_short_ && at_ == bytes_.size() * 8;
    }

    // Returns the position of the checkpoint before the i-th one.
    std::int64_t bits_at(std::size_t i) const {
        return i == 0 ? 0 : static_cast<std::int64_t>(checkpoints_[i - 1].position_bits);
    }
    // Predicts from the two nearest checkpoints above it in its column. For each, the distance counts in bits from the
    // beginning of its row or, for a stop, from the checkpoint before.
    jpeg::Checkpoint expected_at(std::size_t i) const {
        const bool is_end = columns_[i] == 0;
        std::size_t above = i;
        while (above > 0 && columns_[above - 1] != columns_[i]) --above;
        if (above == 0) return i == 0 ? jpeg::Checkpoint{} : checkpoints_[i - 1];
        --above;
        std::size_t begin = above;  // of the row that ends there, after the row before
        while (is_end && begin > 0 && columns_[begin - 1] != 0) --begin;
        jpeg::Checkpoint checkpoint = checkpoints_[above];
        const std::int64_t bits = static_cast<std::int64_t>(checkpoint.position_bits) - bits_at(begin);
        checkpoint.position_bits = static_cast<std::uint64_t>(bits_at(is_end ? above + 1 : i) + bits);
        return checkpoint;
    }

    std::int64_t difference(std::uint64_t parameter) {
        const auto code = static_cast<std::int64_t>(rice(parameter));
        return code % 2 == 0 ? code / 2 : -(code + 1) / 2;
    }
    std::uint64_t rice(std::uint64_t parameter) {
        std::uint64_t zeros = 0;
        while (zeros < kPackedEscape && !is_short_ && bit() == 0) ++zeros;
        if (zeros == kPackedEscape) return bits(38);
        return zeros << parameter | bits(parameter);
    }
    std::uint64_t bit() {
        if (at_ >= bytes_.size() * 8) {
            is_short_ = true;
            return 0;
        }
        const std::uint64_t value = bytes_[at_ / 8] >> (7 - at_ % 8) & 1;
        ++at_;
        return value;
    }
    std::uint64_t bits(std::uint64_t count) {
        std::uint64_t value = 0;
        for (; count > 0; --count) value = value << 1 | bit();
        return value;
    }
    std::uint64_t byte() { return bits(8); }
    std::uint64_t word() {
        std::uint64_t value = 0;
        for (int shift = 0; shift < 32; shift += 8) value |= byte() << shift;
        return value;
    }

    const Bytes& bytes_;
    std::size_t at_ = 0;     // in bits
    bool is_short_ = false;  // a read went past the end
    bool is_right_ = false;
    std::vector<std::uint32_t> columns_;  // columns of the checkpoints' MCUs; 0 at a row's end
    std::vector<jpeg::Checkpoint> checkpoints_;
};

}  // namespace fastload::testing

// What a packed entropy index says, read bit by bit as Note [packed index] has it.
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
        if (is_short_ || revision != 1 || (level != 1 && level != 2) || components != shape.component_count ||
            mcus != std::uint64_t{shape.mcus_wide} * shape.mcus_high || rows > shape.mcus_high) {
            return;
        }
        std::vector<std::uint64_t> parameters;
        for (int field = 0; field <= components; ++field) {
            const std::uint64_t parameter = byte();
            parameters.push_back(parameter > 31 ? 31 : parameter);
        }
        const jpeg::CheckpointRule rule(shape, static_cast<jpeg::IndexLevel>(level));
        is_right_ = read_checkpoints(rule.count_in_rows(static_cast<std::uint32_t>(rows)), end_bits, parameters);
    }

    bool is_right() const { return is_right_; }
    // Where it is right.
    const std::vector<jpeg::Checkpoint>& checkpoints() const { return checkpoints_; }

  private:
    bool read_checkpoints(std::size_t count, std::uint64_t end_bits, const std::vector<std::uint64_t>& parameters) {
        std::uint64_t position = 0;
        std::int64_t predictions[jpeg::kMaxComponents] = {};
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint64_t step = rice(parameters[0]);
            position += step;
            if (is_short_ || step == 0 || position > end_bits) return false;
            jpeg::Checkpoint checkpoint;
            checkpoint.position_bits = position;
            for (std::size_t c = 0; c + 1 < parameters.size(); ++c) {
                const auto code = static_cast<std::int64_t>(rice(parameters[c + 1]));
                predictions[c] += code % 2 == 0 ? code / 2 : -(code + 1) / 2;
                if (predictions[c] < -32768 || predictions[c] > 32767) return false;
                checkpoint.predictions[c] = static_cast<std::int16_t>(predictions[c]);
            }
            checkpoints_.push_back(checkpoint);
        }
        while (!is_short_ && at_ % 8 != 0) {
            if (bit() != 0) return false;
        }
        return !is_short_ && at_ == bytes_.size() * 8;
    }

    std::uint64_t rice(std::uint64_t parameter) {
        std::uint64_t zeros = 0;
        while (zeros < kPackedEscape && !is_short_ && bit() == 0) ++zeros;
        if (zeros == kPackedEscape) return bits(36);
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
    bool is_short_ = false;  // something behind the end was asked for
    bool is_right_ = false;
    std::vector<jpeg::Checkpoint> checkpoints_;
};

}  // namespace fastload::testing

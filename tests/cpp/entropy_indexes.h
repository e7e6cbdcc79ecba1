// Entropy indexes for the tests of packing and storing them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <vector>

#include "check.h"
#include "codec/jpeg/entropy_index.h"

namespace fastload::testing {

// Three components of one block each; 40 MCUs a row are three checkpoints inside of it at the level kDense.
constexpr jpeg::ScanShape kThreeComponents = {40, 6, 3, 3};

inline jpeg::EntropyIndex begun(const jpeg::ScanShape& shape, jpeg::IndexLevel level) {
    jpeg::EntropyIndex index;
    CHECK(index.begin(shape, level).is_ok());
    return index;
}

inline std::int16_t any_prediction(std::mt19937_64* random) {
    return static_cast<std::int16_t>(static_cast<std::int64_t>((*random)() % 65536) - 32768);
}

// An index that knows the first `rows` rows: possible checkpoints in data of `data_bytes`, with any predictions.
inline jpeg::EntropyIndex any_index(const jpeg::ScanShape& shape, jpeg::IndexLevel level, std::uint32_t rows,
                                    std::size_t data_bytes, std::mt19937_64* random) {
    jpeg::EntropyIndex index = begun(shape, level);
    CHECK(index.accepts(data_bytes));
    const std::uint64_t max_step = data_bytes * 8 / index.rule().count();
    jpeg::Checkpoint checkpoint;
    for (std::size_t i = 0; i < index.rule().count_in_rows(rows); ++i) {
        checkpoint.position_bits += 1 + (*random)() % max_step;
        for (int c = 0; c < shape.component_count; ++c) checkpoint.predictions[c] = any_prediction(random);
        index.append(checkpoint);
    }
    return index;
}

// True if both know the same about data of the same size.
inline bool is_same(const jpeg::EntropyIndex& a, const jpeg::EntropyIndex& b) {
    if (a.size() != b.size() || (a.size() != 0 && a.data_bytes() != b.data_bytes()) || a.level() != b.level()) {
        return false;
    }
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (!(a[i] == b[i])) return false;
    }
    return true;
}

inline std::vector<std::uint8_t> packed(const jpeg::EntropyIndex& index) {
    std::vector<std::uint8_t> bytes(std::size_t{1} << 20);
    bytes.resize(index.pack({bytes.data(), bytes.size()}));
    return bytes;
}

}  // namespace fastload::testing

// Keys and records for the tests of index tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "check.h"
#include "engine/cache/index_table.h"

namespace fastload::testing {

using Bytes = std::vector<std::uint8_t>;

constexpr std::size_t kNoBound = std::size_t{1} << 40;

inline ContentKey key_of(std::uint64_t low) { return {{low, ~low}, 1000}; }

inline std::vector<ContentKey> random_keys(std::size_t count, std::mt19937_64* random) {
    std::vector<ContentKey> keys;
    for (std::size_t i = 0; i < count; ++i) keys.push_back(key_of((*random)()));
    return keys;
}

// Returns a record whose bytes all follow from its size and number, so that one byte of another record is seen.
inline Bytes record_of(std::size_t size, std::uint64_t number) {
    Bytes record(size);
    std::uint64_t state = number * 0x9E3779B97F4A7C15U + size;
    for (std::uint8_t& byte : record) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        byte = static_cast<std::uint8_t>(state >> 56);
    }
    return record;
}

// Wraps a table that outlives every user of the pointer.
inline std::shared_ptr<IndexRecords> borrowed(IndexTable* table) {
    return {table, [](IndexRecords*) {}};
}

inline bool put(IndexTable* table, const ContentKey& key, const Bytes& record) {
    return table->put(key, 0, {record.data(), record.size()});
}

inline Bytes found(const IndexTable& table, const ContentKey& key) {
    Bytes record(table.find(key, {}));
    CHECK_EQUAL(table.find(key, {record.data(), record.size()}), record.size());
    return record;
}

}  // namespace fastload::testing

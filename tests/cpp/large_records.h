// Records as coefficients are: large, and read in parts, each of which tells whether it is right.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "base/content_hash.h"
#include "engine/cache/built_records.h"
#include "engine/cache/record_build.h"
#include "record_folders.h"
#include "running_store.h"

namespace fastload::testing {

// A large record consists of blocks; the last bytes of each are a check over the others, the key and the place.
constexpr std::size_t kBlockBytes = 4096;
constexpr std::size_t kCheckedBytes = kBlockBytes - sizeof(std::uint64_t);
// As coefficients of a usual image.
constexpr std::size_t kUsualBytes = 42 * kBlockBytes;

inline std::uint64_t check_of_block(std::uint64_t number, std::uint32_t rank, std::size_t block, ByteSpan bytes) {
    static const HashKey key = store_key(2);
    return content_hash(key, bytes.subspan(0, kCheckedBytes)).low ^ (number << 40) ^ (std::uint64_t{rank} << 20) ^
           block;
}

// `size` is a multiple of kBlockBytes.
inline RecordBytes large_record(std::uint64_t number, std::size_t size, std::uint32_t rank = 0) {
    RecordBytes bytes(size);
    std::uint64_t state = number * 0x9E3779B97F4A7C15U + rank;
    for (std::size_t i = 0; i < size; i += sizeof state) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        std::memcpy(bytes.data() + i, &state, sizeof state);
    }
    for (std::size_t i = 0; i < size; i += kBlockBytes) {
        const std::uint64_t check = check_of_block(number, rank, i / kBlockBytes, {bytes.data() + i, kBlockBytes});
        std::memcpy(bytes.data() + i + kCheckedBytes, &check, sizeof check);
    }
    return bytes;
}

// Whether blocks that were read from the record's `first` one on are right, by their own checks.
inline bool are_right(const RecordBytes& blocks, std::uint64_t number, std::uint32_t rank, std::size_t first) {
    for (std::size_t i = 0; i < blocks.size(); i += kBlockBytes) {
        std::uint64_t check = 0;
        std::memcpy(&check, blocks.data() + i + kCheckedBytes, sizeof check);
        if (check != check_of_block(number, rank, first + i / kBlockBytes, {blocks.data() + i, kBlockBytes})) {
            return false;
        }
    }
    return true;
}

inline std::shared_ptr<const BuiltRecords> open_built(const RecordFolder& folder,
                                                      RecordKind kind = RecordKind::kCoefficients) {
    auto records =
        std::make_shared<BuiltRecords>(duplicate(folder), std::make_unique<const HashKey>(store_key()), kind);
    CHECK_EQUAL(records->open(), 0);
    return records;
}

inline std::unique_ptr<RecordBuild> begin_build(const RecordFolder& folder, std::uint64_t max_bytes = 64 * kMiB,
                                                std::uint64_t max_file_bytes = 0) {
    return std::make_unique<RecordBuild>(open_built(folder), max_bytes, max_file_bytes);
}

inline bool put_large(RecordBuild* build, std::uint64_t number, std::size_t size = kUsualBytes,
                      std::uint32_t rank = 0) {
    return build->put(content_key(number), rank, view_of(large_record(number, size, rank)));
}

// Builds the records of the numbers [first, first + count).
inline void build_large(const RecordFolder& folder, std::uint64_t first, std::uint64_t count,
                        std::size_t size = kUsualBytes, std::uint32_t rank = 0) {
    const auto build = begin_build(folder);
    for (std::uint64_t i = first; i < first + count; ++i) CHECK(put_large(build.get(), i, size, rank));
    build->finish();
    CHECK_EQUAL(build->error(), 0);
}

enum class LargeRead { kAbsent, kUnread, kWrong, kRight };

// Reads a record as a decoder does: its head, and then a range in the middle. kUnread: the store says that a part
// cannot be read. kWrong: it gave bytes that are not right by their own checks.
inline LargeRead read_large(const BuiltRecords& store, std::uint64_t number, std::uint32_t rank = 0) {
    StoredRecord record;
    if (!store.find(content_key(number), &record)) return LargeRead::kAbsent;
    const std::size_t num_blocks = record.size() / kBlockBytes;
    if (num_blocks == 0) return LargeRead::kWrong;
    RecordBytes head(kBlockBytes);
    if (!record.read(0, {head.data(), head.size()})) return LargeRead::kUnread;
    const std::size_t first = num_blocks / 4;
    RecordBytes middle((num_blocks - first + 1) / 2 * kBlockBytes);
    if (!record.read(first * kBlockBytes, {middle.data(), middle.size()})) return LargeRead::kUnread;
    const bool is_right = are_right(head, number, rank, 0) && are_right(middle, number, rank, first);
    return is_right ? LargeRead::kRight : LargeRead::kWrong;
}

inline bool has_large(const BuiltRecords& store, std::uint64_t number, std::uint32_t rank = 0) {
    return read_large(store, number, rank) == LargeRead::kRight;
}

}  // namespace fastload::testing

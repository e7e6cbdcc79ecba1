// The kinds of records: Note [kinds of records].
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/content_hash.h"
#include "engine/cache/index_records.h"
#include "io/records/record_file.h"

namespace fastload {

// Note [kinds of records]
// A store's folder has files of up to three kinds. Indexes are small, are kept while loaders run, and are written again
// as they learn more: a RecordStore writes and publishes their files. Coefficients and pixels are large and are
// written once, by a RecordBuild; their published files never change, and BuiltRecords opens them read-only. All kinds
// share the store's bytes, first come, first served.

// Raise the revision of a kind whenever what a decoder accepts or what a record means changes.
constexpr std::uint32_t kIndexRevision = 2;
constexpr std::uint32_t kCoefficientRevision = 1;
constexpr std::uint32_t kPixelRevision = 1;

constexpr std::uint32_t decoder_revision(RecordKind kind) noexcept {
    return kind == RecordKind::kIndex          ? kIndexRevision
           : kind == RecordKind::kCoefficients ? kCoefficientRevision
                                               : kPixelRevision;
}

constexpr std::uint32_t max_record_bytes(RecordKind kind) noexcept {
    return kind == RecordKind::kIndex ? std::uint32_t{IndexRecords::kMaxRecordBytes} : std::uint32_t{32} << 20;
}

// Returns the size from which on a file is full. The directory of an index file, which is written again and again,
// stays small, and only few files are open.
constexpr std::uint64_t max_record_file_bytes(RecordKind kind, std::uint64_t max_bytes) noexcept {
    return kind == RecordKind::kIndex ? std::clamp(max_bytes / 16, std::uint64_t{64} << 20, std::uint64_t{256} << 20)
                                      : std::max(std::uint64_t{1} << 30, max_bytes / 128);
}

// Returns the bytes on disk that files of a kind may take if files of other kinds take `other_bytes`. Large records
// leave a thirty-second of the store for the indexes of the images that they leave out.
constexpr std::uint64_t room_for(RecordKind kind, std::uint64_t max_bytes, std::uint64_t other_bytes) noexcept {
    const std::uint64_t left = max_bytes - std::min(max_bytes, other_bytes);
    return kind == RecordKind::kIndex ? left : left - std::min(left, max_bytes / 32);
}

// The place of a store's records of one kind.
struct StorePlace {
    int folder = -1;  // a descriptor, which the store's owner keeps open
    RecordKind kind = RecordKind::kIndex;
    const HashKey* key = nullptr;
    std::uint64_t max_bytes = 0;  // of all files in the folder
};

}  // namespace fastload

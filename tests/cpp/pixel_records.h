// Pixel records for tests, changed with right sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/content_hash.h"
#include "base/span.h"

namespace fastload::testing {

// Offsets in a record: Note [pixel records].
constexpr std::size_t kPixelSizes = sizeof(RecordStamp);  // of the image in the file, then of the image in the record
constexpr std::size_t kPixelSum = 112;
constexpr std::size_t kPixelHeadBytes = 128;

// Sets the right sum and check in a record of at least its head, whatever the head says now.
inline void put_pixel_sums_right(const HashKey& key, std::uint64_t salt, std::vector<std::uint8_t>* record) {
    constexpr std::size_t kCheck = kPixelSum + sizeof(std::uint64_t);
    const ByteSpan bytes(record->data(), record->size());
    const std::uint64_t sum = content_sum(key, bytes.subspan(kPixelHeadBytes, bytes.size() - kPixelHeadBytes));
    std::memcpy(record->data() + kPixelSum, &sum, sizeof sum);
    const std::uint64_t check = content_sum(key, bytes.subspan(0, kCheck)) ^ salt;
    std::memcpy(record->data() + kCheck, &check, sizeof check);
}

}  // namespace fastload::testing

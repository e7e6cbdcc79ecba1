// The place of a store's records of one kind.
#pragma once

#include <cstdint>

#include "base/content_hash.h"
#include "io/records/record_file.h"

namespace fastload {

struct StorePlace {
    int folder = -1;  // a descriptor, which the store's owner keeps open
    RecordKind kind = RecordKind::kIndex;
    const HashKey* key = nullptr;
    std::uint64_t max_bytes = 0;  // of all files in the folder
};

}  // namespace fastload

// A report on the files of a store.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/content_hash.h"
#include "base/span.h"
#include "engine/cache/record_kinds.h"

namespace fastload {

struct StoreFileReport {
    std::string name;  // without a suffix
    RecordFileVerdict verdict = RecordFileVerdict::kGood;
    int error = 0;            // of kFailed
    bool has_writer = false;  // a living one
    std::uint64_t records = 0;
    std::uint64_t live_records = 0;  // records without a better one in another file
    std::uint64_t live_bytes = 0;    // taken by live records
    std::uint64_t dead_bytes = 0;    // all others, except bytes that a living writer has not published yet
    std::uint64_t file_bytes = 0;    // of the .dat
    std::uint64_t damaged = 0;       // counted only if the records were read
};

// Returns whether a record of a key is whole, as far as its own checks tell.
using RecordCheck = std::function<bool(const ContentKey& key, ByteSpan record)>;

// Reports each file of the kind with a .dir. With a check, reads all records and counts those that fail it. Returns the
// system's error if the folder cannot be listed. May throw std::bad_alloc.
int report_store(const StorePlace& place, const RecordCheck& is_whole, std::vector<StoreFileReport>* files);

}  // namespace fastload

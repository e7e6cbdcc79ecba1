// What a store has on disk, for who looks at it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/cache/record_appender.h"

namespace fastload {

struct StoreFileReport {
    std::string name;  // without an ending
    RecordFileVerdict verdict = RecordFileVerdict::kGood;
    int error = 0;            // of kFailed
    bool has_writer = false;  // that lives
    std::uint64_t records = 0;
    std::uint64_t live_bytes = 0;  // that these take
    std::uint64_t file_bytes = 0;  // of the .dat
    std::uint64_t damaged = 0;     // of the records, where they were read
};

// Of each file with a .dir. With `reads_records` all of them are read and their checks made. May throw std::bad_alloc.
// Returns the system's error where the folder cannot be listed.
int report_store(const StorePlace& place, bool reads_records, std::vector<StoreFileReport>* files);

}  // namespace fastload

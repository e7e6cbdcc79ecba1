#include "engine/cache/built_records.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "engine/cache/record_kinds.h"
#include "io/records/record_folder.h"

namespace fastload {
namespace {

// Files may come and go during a listing.
constexpr int kListings = 3;

}  // namespace

BuiltRecords::BuiltRecords(UniqueFd folder, std::unique_ptr<const HashKey> key, RecordKind kind)
    : folder_(std::move(folder)), key_(std::move(key)), kind_(kind) {}

int BuiltRecords::open() {
    for (int listing = 0; listing < kListings; ++listing) {
        FolderFiles files;
        if (const int error = list_record_files(folder_.get(), kind_, &files); error != 0) return error;
        files_.files.clear();
        names_.clear();
        bool is_whole = true;
        for (std::string& name : files.complete) {
            int error = 0;
            if (auto opened = open_records(place(), name, &error); opened != nullptr) {
                files_.files.push_back(std::move(opened));
            } else if (error != 0 && error != EBADMSG) {  // the file is gone, or the system refuses for now
                is_whole = is_whole && error != ENOENT;
                continue;
            }
            names_.push_back(std::move(name));
        }
        if (is_whole) break;
    }
    return 0;
}

bool BuiltRecords::is_current() const {
    FolderFiles files;
    return list_record_files(folder_.get(), kind_, &files) != 0 || files.complete == names_;
}

bool BuiltRecords::find(const ContentKey& key, StoredRecord* record) const noexcept {
    FoundRecord found;
    if (reads_.error() != 0) return false;
    const OpenedRecords* const opened = files_.find(key.hash, &found);
    // Another process may have written a file that names a larger record than the kind allows.
    if (opened == nullptr || found.place.size > max_record_bytes(kind_)) return false;
    *record = StoredRecord(key, found.place, opened->file(), &reads_);
    return true;
}

BuiltCounters BuiltRecords::counters() const noexcept {
    return {files_.num_records(), files_.memory_bytes(), reads_.bytes(), reads_.damaged(), reads_.error()};
}

}  // namespace fastload

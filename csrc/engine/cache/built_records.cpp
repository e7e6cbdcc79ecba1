#include "engine/cache/built_records.h"

#include <utility>

#include "engine/cache/record_kinds.h"
#include "io/records/record_folder.h"

namespace fastload {

BuiltRecords::BuiltRecords(UniqueFd folder, std::unique_ptr<const HashKey> key, RecordKind kind)
    : folder_(std::move(folder)), key_(std::move(key)), kind_(kind) {}

int BuiltRecords::open() { return look_at_folder(place(), {}, &files_); }

bool BuiltRecords::is_current() const {
    FolderFiles files;
    return list_record_files(folder_.get(), kind_, &files) != 0 ||
           (files_.is_settled && files.complete == files_.names);
}

bool BuiltRecords::find(const ContentKey& key, StoredRecord* record) const noexcept {
    return find_stored(files_, key, max_record_bytes(kind_), &reads_, record);
}

BuiltCounters BuiltRecords::counters() const noexcept {
    return {files_.num_records(), files_.memory_bytes(), reads_.bytes(), reads_.damaged(), reads_.error()};
}

}  // namespace fastload

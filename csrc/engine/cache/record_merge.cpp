#include "engine/cache/record_merge.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/span.h"
#include "engine/cache/record_kinds.h"
#include "io/records/file_calls.h"
#include "io/records/record_folder.h"

namespace fastload {
namespace {

// A file of a dead writer, locked for as long as this object lives.
struct ClosedFile {
    std::string name;
    RecordFile file;
    RecordDirectory directory;
};

struct MergedEntry : DirectoryEntry {
    const RecordFile* file;
};

std::vector<ClosedFile> closed_files(const StorePlace& place) {
    FolderFiles files;
    std::vector<ClosedFile> closed;
    if (list_record_files(place.folder, place.kind, &files) != 0) return closed;
    for (std::string& name : files.complete) {
        ClosedFile file;
        int error = 0;
        const std::uint32_t revision = decoder_revision(place.kind);
        if (RecordFile::open(place.folder, name, place.kind, revision, &file.file, &error) ==
                RecordFileVerdict::kGood &&
            file.file.try_lock() &&
            // Read after the lock is taken: the writer may have written a last directory before it ended.
            read_record_directory(place.folder, name, place.kind, revision, *place.key, &file.directory, &error) ==
                RecordFileVerdict::kGood &&
            file.directory.id == file.file.id()) {
            file.name = std::move(name);
            closed.push_back(std::move(file));
        }
    }
    return closed;
}

// Keeps the smallest files in the list, at most `most`: as many as one new file can replace, which exists before they
// go.
int leave_what_has_room(const StorePlace& place, std::size_t most, std::vector<ClosedFile>* files) {
    FolderFiles listed;
    if (const int error = list_record_files(place.folder, place.kind, &listed); error != 0) return error;
    const std::uint64_t room = place.max_bytes - std::min(place.max_bytes, listed.used_bytes);
    std::stable_sort(files->begin(), files->end(), [](const ClosedFile& a, const ClosedFile& b) {
        return a.directory.covered_bytes < b.directory.covered_bytes;
    });
    std::uint64_t needed = RecordAppender::needed_bytes(0, 0);
    std::size_t count = 0;
    for (; count < std::min(most, files->size()); ++count) {
        const RecordDirectory& next = (*files)[count].directory;
        needed += RecordAppender::needed_bytes(next.covered_bytes, next.entries.size());
        if (needed > room) break;
    }
    files->resize(count);
    return 0;
}

std::vector<MergedEntry> best_entries(const std::vector<ClosedFile>& files) {
    std::vector<MergedEntry> entries;
    for (const ClosedFile& file : files) {
        for (const DirectoryEntry& entry : file.directory.entries) entries.push_back({entry, &file.file});
    }
    keep_best(&entries);
    return entries;
}

int copy_records(const std::vector<MergedEntry>& entries, RecordAppender* merged) {
    std::vector<std::uint8_t> buffer;
    for (const MergedEntry& from : entries) {
        buffer.resize(from.size);
        RecordHead head;
        int error = 0;
        const bool is_read = from.file->read(from.place(), {buffer.data(), buffer.size()}, &head, &error);
        // Leaves out damaged records and records that the disk cannot read.
        if (error != 0 && error != EIO) return error;
        if (!is_read || !(head.key.hash == from.hash)) continue;
        RecordPlace place;
        error = merged->append(head.key, from.rank, {buffer.data(), buffer.size()}, &place);
        if (error != 0) return error;
    }
    std::shared_ptr<const OpenedRecords> opened;
    return merged->publish(&opened);
}

}  // namespace

int merge_records(const StorePlace& place, std::size_t max_files) {
    FolderLock merging;
    if (FolderLock::take(place.folder, "merge", false, &merging) != 0) return 0;
    std::vector<ClosedFile> files = closed_files(place);
    if (files.size() <= max_files) return 0;
    if (const int error = leave_what_has_room(place, files.size() - max_files + 1, &files); error != 0) return error;
    if (files.size() < 2) return 0;
    RecordAppender merged(place, std::numeric_limits<std::uint64_t>::max(), true);
    if (const int error = copy_records(best_entries(files), &merged); error != 0) return error;
    // A .dat without its .dir means nothing, nor does a .dir without its .dat. The next process merges or removes files
    // that cannot be removed now.
    for (const char* ending : {".dir", ".dat"}) {
        for (const ClosedFile& file : files) {
            static_cast<void>(unlink_in_folder(place.folder, FileName(file.name, ending).c_str()));
        }
    }
    return 0;
}

}  // namespace fastload

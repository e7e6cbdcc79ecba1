#include "engine/cache/store_report.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "engine/cache/record_kinds.h"
#include "io/records/record_directory.h"
#include "io/records/record_file.h"
#include "io/records/record_folder.h"

namespace fastload {
namespace {

struct ReportedEntry : DirectoryEntry {
    std::size_t file;  // its place among the reports
};

bool is_good(const RecordFile& file, const DirectoryEntry& entry, const RecordCheck& is_whole,
             std::vector<std::uint8_t>* buffer) {
    buffer->resize(entry.size);
    RecordHead head;
    int error = 0;
    return file.read(entry.place(), {buffer->data(), buffer->size()}, &head, &error) && head.key.hash == entry.hash &&
           is_whole(head.key, {buffer->data(), buffer->size()});
}

// Counts all records as dead until the other files have been compared. Puts the entries of its directory into
// `entries`.
void report_file(const StorePlace& place, const RecordCheck& is_whole, StoreFileReport* report,
                 std::vector<DirectoryEntry>* entries) {
    RecordFile file;
    const std::uint32_t revision = decoder_revision(place.kind);
    report->verdict = RecordFile::open(place.folder, report->name, place.kind, revision, &file, &report->error);
    if (report->verdict != RecordFileVerdict::kGood) return;
    report->has_writer = !file.try_lock();
    static_cast<void>(file.find_size(&report->file_bytes));
    RecordDirectory directory;
    report->verdict =
        read_record_directory(place.folder, report->name, place.kind, revision, *place.key, &directory, &report->error);
    if (report->verdict == RecordFileVerdict::kGood && directory.id != file.id()) {
        report->verdict = RecordFileVerdict::kFailed;
        report->error = EBADMSG;
    }
    if (report->verdict != RecordFileVerdict::kGood) return;
    report->records = directory.entries.size();
    report->dead_bytes = report->has_writer ? directory.covered_bytes : report->file_bytes;
    *entries = std::move(directory.entries);
    if (is_whole == nullptr) return;
    std::vector<std::uint8_t> buffer;
    for (const DirectoryEntry& entry : *entries) {
        if (!is_good(file, entry, is_whole, &buffer)) ++report->damaged;
    }
}

void count_live(std::vector<ReportedEntry>* entries, std::vector<StoreFileReport>* files) {
    keep_best(entries);
    for (const ReportedEntry& entry : *entries) {
        StoreFileReport& file = (*files)[entry.file];
        const std::uint64_t bytes = record_file_bytes(entry.size);
        ++file.live_records;
        file.live_bytes += bytes;
        file.dead_bytes -= std::min(file.dead_bytes, bytes);
    }
}

}  // namespace

int report_store(const StorePlace& place, const RecordCheck& is_whole, std::vector<StoreFileReport>* files) {
    FolderFiles listed;
    if (const int error = list_record_files(place.folder, place.kind, &listed); error != 0) return error;
    std::vector<ReportedEntry> all;
    for (const std::string& name : listed.complete) {
        StoreFileReport report;
        report.name = name;
        std::vector<DirectoryEntry> entries;
        report_file(place, is_whole, &report, &entries);
        for (const DirectoryEntry& entry : entries) all.push_back({entry, files->size()});
        files->push_back(report);
    }
    count_live(&all, files);
    return 0;
}

}  // namespace fastload

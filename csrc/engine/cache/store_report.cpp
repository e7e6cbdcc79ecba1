#include "engine/cache/store_report.h"

#include <cerrno>

#include "io/records/record_directory.h"
#include "io/records/record_file.h"
#include "io/records/record_folder.h"

namespace fastload {
namespace {

bool is_good(const RecordFile& file, const DirectoryEntry& entry, const RecordCheck& is_whole,
             std::vector<std::uint8_t>* buffer) {
    buffer->resize(entry.size);
    RecordHead head;
    int error = 0;
    return file.read(entry.place(), {buffer->data(), buffer->size()}, &head, &error) && head.key.hash == entry.hash &&
           is_whole(head.key, {buffer->data(), buffer->size()});
}

void report_file(const StorePlace& place, const RecordCheck& is_whole, StoreFileReport* report) {
    RecordFile file;
    report->verdict = RecordFile::open(place.folder, report->name, place.kind, place.decoder_revision, place.is_shared,
                                       &file, &report->error);
    if (report->verdict != RecordFileVerdict::kGood) return;
    report->has_writer = !file.try_lock();
    static_cast<void>(file.find_size(&report->file_bytes));
    RecordDirectory directory;
    report->verdict = read_record_directory(place.folder, report->name, place.kind, place.decoder_revision, *place.key,
                                            place.is_shared, &directory, &report->error);
    if (report->verdict == RecordFileVerdict::kGood && !(directory.id == file.id())) {
        report->verdict = RecordFileVerdict::kFailed;
        report->error = EBADMSG;
    }
    if (report->verdict != RecordFileVerdict::kGood) return;
    report->records = directory.entries.size();
    std::vector<std::uint8_t> buffer;
    for (const DirectoryEntry& entry : directory.entries) {
        report->live_bytes += record_file_bytes(entry.size);
        if (is_whole != nullptr && !is_good(file, entry, is_whole, &buffer)) ++report->damaged;
    }
}

}  // namespace

int report_store(const StorePlace& place, const RecordCheck& is_whole, std::vector<StoreFileReport>* files) {
    FolderFiles listed;
    if (const int error = list_record_files(place.folder, place.kind, &listed); error != 0) return error;
    for (const std::string& name : listed.complete) {
        StoreFileReport report;
        report.name = name;
        report_file(place, is_whole, &report);
        files->push_back(report);
    }
    return 0;
}

}  // namespace fastload

#include "engine/cache/store_report.h"

#include <cerrno>

#include "engine/cache/index_record.h"
#include "io/records/record_directory.h"
#include "io/records/record_file.h"
#include "io/records/record_folder.h"

namespace fastload {
namespace {

bool is_whole(const StorePlace& place, const RecordFile& file, const DirectoryEntry& entry,
              std::vector<std::uint8_t>* buffer) {
    buffer->resize(entry.size);
    RecordHead head;
    ByteSpan packed;
    int error = 0;
    return file.read(entry.place(), {buffer->data(), buffer->size()}, &head, &error) && head.key.hash == entry.hash &&
           open_index_record(*place.key, head.key, {buffer->data(), buffer->size()}, &packed);
}

void report_file(const StorePlace& place, bool reads_records, StoreFileReport* report) {
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
        if (reads_records && !is_whole(place, file, entry, &buffer)) ++report->damaged;
    }
}

}  // namespace

int report_store(const StorePlace& place, bool reads_records, std::vector<StoreFileReport>* files) {
    FolderFiles listed;
    if (const int error = list_record_files(place.folder, place.kind, &listed); error != 0) return error;
    for (const std::string& name : listed.complete) {
        StoreFileReport report;
        report.name = name;
        report_file(place, reads_records, &report);
        files->push_back(report);
    }
    return 0;
}

}  // namespace fastload

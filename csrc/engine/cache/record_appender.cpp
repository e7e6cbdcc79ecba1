#include "engine/cache/record_appender.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "engine/cache/record_kinds.h"
#include "io/records/file_calls.h"

namespace fastload {
namespace {

constexpr std::uint64_t kPageBytes = 4096;

}  // namespace

// Finds the room for a record that takes `bytes` with its entry in the directory.
int RecordAppender::find_room(std::uint64_t bytes, FolderFiles* files) {
    if (const int error = list_record_files(place_.folder, place_.kind, files); error != 0) return error;
    // While a directory is written, the old one is still there. Its file and the .dat end in pages that are not full.
    const std::uint64_t directory_bytes = entries_.size() * sizeof(DirectoryEntry) + 2 * kPageBytes;
    const std::uint64_t limit = room_for(place_.kind, place_.max_bytes, files->used_bytes - files->kind_bytes);
    const std::uint64_t left = limit - std::min(limit, files->kind_bytes + directory_bytes);
    if (bytes > left) return kStoreIsFull;
    room_ = std::min(left, std::max(bytes, place_.max_bytes / 128));
    return 0;
}

int RecordAppender::begin_file(const FolderFiles& files) {
    // Files of coefficients and pixels never change once they are published.
    if (place_.kind == RecordKind::kIndex) {
        for (const std::string& name : files.complete) {
            if (take_over(name)) return 0;
        }
    }
    const std::uint32_t revision = decoder_revision(place_.kind);
    auto file = std::make_shared<RecordFile>();
    RecordFileWriter writer;
    int error = RecordFileWriter::create(place_.folder, place_.kind, revision, &writer);
    if (error != 0) return error;
    if (RecordFile::open(place_.folder, writer.name(), place_.kind, revision, file.get(), &error) !=
        RecordFileVerdict::kGood) {
        static_cast<void>(unlink_in_folder(place_.folder, FileName(writer.name(), ".dat").c_str()));
        return error != 0 ? error : EIO;
    }
    writer_ = std::move(writer);
    file_ = std::move(file);
    return 0;
}

// Goes on with the file of a writer that has ended. Returns false if it is full, damaged, foreign, or somebody writes
// to it.
bool RecordAppender::take_over(const std::string& name) {
    const std::uint32_t revision = decoder_revision(place_.kind);
    auto file = std::make_shared<RecordFile>();
    RecordFileWriter writer;
    RecordDirectory directory;
    std::uint64_t size = 0;
    int error = 0;
    if (RecordFile::open(place_.folder, name, place_.kind, revision, file.get(), &error) != RecordFileVerdict::kGood ||
        file->find_size(&size) != 0 || size >= max_file_bytes_ ||
        RecordFileWriter::reopen(place_.folder, name, file->id(), &writer) != 0) {
        return false;
    }
    // Read after the lock is taken: the writer may have written a last directory before it ended.
    if (read_record_directory(place_.folder, name, place_.kind, revision, *place_.key, &directory, &error) !=
            RecordFileVerdict::kGood ||
        directory.id != file->id() || writer.go_on_from(directory.covered_bytes) != 0) {
        return false;
    }
    writer_ = std::move(writer);
    file_ = std::move(file);
    entries_ = std::move(directory.entries);
    num_published_ = entries_.size();
    generation_ = directory.generation;
    return true;
}

int RecordAppender::append(const ContentKey& key, std::uint32_t rank, ByteSpan record) {
    const std::uint64_t record_bytes = record_file_bytes(record.size());
    // An entry stands in two directories while the second one is written.
    const std::uint64_t bytes = record_bytes + 2 * sizeof(DirectoryEntry);
    FolderFiles files;
    if (!writer_.is_open()) {
        if (const int error = find_room(bytes, &files); error != 0) return error;
        if (const int error = begin_file(files); error != 0) return error;
        room_ = 0;  // the file may have a directory already
    }
    if (bytes > room_) {
        if (const int error = find_room(bytes, &files); error != 0) return error;
    }
    if (entries_.size() == entries_.capacity()) entries_.reserve(2 * entries_.size() + 1024);
    const RecordHead head = {key, static_cast<std::uint32_t>(record.size()), rank};
    RecordPlace written;
    if (const int error = writer_.append(head, record, &written); error != 0) return error;
    entries_.push_back({key.hash, written.offset, written.size, rank});
    room_ -= bytes;
    bytes_written_ += record_bytes;
    unpushed_bytes_ += record_bytes;
    if (unpushed_bytes_ >= kPushedBytes) {
        writer_.push_out();
        unpushed_bytes_ = 0;
    }
    return 0;
}

int RecordAppender::publish(std::shared_ptr<const OpenedRecords>* opened) {
    opened->reset();
    room_ = 0;
    if (!has_unpublished()) return 0;
    RecordDirectory directory;
    directory.id = writer_.id();
    directory.generation = ++generation_;
    directory.covered_bytes = writer_.end();
    directory.entries = entries_;
    keep_best(&directory.entries);
    // Syncs before the directory is written: it must name nothing that is not on disk.
    if (const int error = writer_.sync(); error != 0) return error;
    if (const int error = write_record_directory(place_.folder, writer_.name(), place_.kind,
                                                 decoder_revision(place_.kind), *place_.key, directory);
        error != 0) {
        return error;
    }
    *opened = std::make_shared<const OpenedRecords>(writer_.name(), file_, directory);
    entries_ = std::move(directory.entries);
    num_published_ = entries_.size();
    return 0;
}

void RecordAppender::close() noexcept {
    if (writer_.is_open() && is_missing(place_.folder, FileName(writer_.name(), ".dir").c_str())) {
        static_cast<void>(unlink_in_folder(place_.folder, FileName(writer_.name(), ".dat").c_str()));
    }
    writer_ = RecordFileWriter();
    file_.reset();
    entries_.clear();
    entries_.shrink_to_fit();
    num_published_ = 0;
    generation_ = 0;
    room_ = 0;
    unpushed_bytes_ = 0;
}

}  // namespace fastload

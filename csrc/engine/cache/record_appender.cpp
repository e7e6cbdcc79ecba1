#include "engine/cache/record_appender.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "engine/cache/record_kinds.h"
#include "io/records/file_calls.h"

namespace fastload {
namespace {

constexpr std::uint64_t kMinStep = std::uint64_t{1} << 20;
constexpr std::uint64_t kMaxStep = std::uint64_t{64} << 20;
constexpr std::uint64_t kPageBytes = 4096;
// An entry of a .dir is not much smaller than an index. While a new .dir is written, the old one is still there.
constexpr std::uint64_t kLeastRecordBytes = 256;
constexpr std::uint64_t kDirectoriesAtOnce = 2;

std::uint64_t directory_bytes(std::uint64_t records) noexcept {
    return kDirectoriesAtOnce * (kPageBytes + records * sizeof(DirectoryEntry));
}

}  // namespace

int RecordAppender::begin_file() {
    auto file = std::make_shared<RecordFile>();
    FolderLock lock;
    if (const int error = FolderLock::take(place_.folder, "lock", true, &lock); error != 0) return error;
    RecordFileWriter writer;
    const std::uint32_t revision = decoder_revision(place_.kind);
    if (const int error = RecordFileWriter::create(place_.folder, place_.kind, revision, &writer); error != 0) {
        return error;
    }
    int error = 0;
    const RecordFileVerdict verdict =
        RecordFile::open(place_.folder, writer.name(), place_.kind, revision, file.get(), &error);
    if (verdict != RecordFileVerdict::kGood) {
        static_cast<void>(unlink_in_folder(place_.folder, FileName(writer.name(), ".dat").c_str()));
        return error != 0 ? error : EIO;
    }
    writer_ = std::move(writer);
    file_ = std::move(file);
    granted_end_ = writer_.end();
    generation_ = 0;
    return 0;
}

std::uint64_t RecordAppender::needed_bytes(std::uint64_t record_bytes, std::uint64_t records) noexcept {
    // Counts the directory of the last step twice: as it is and as it may become.
    return record_bytes + record_bytes / (kLeastRecordBytes / (kDirectoriesAtOnce * sizeof(DirectoryEntry))) +
           directory_bytes(records) + kPageBytes;
}

// Returns whether a step of this many record bytes fits, with its part of a directory and the present directory.
bool RecordAppender::has_room(const FolderFiles& files, std::uint64_t step) const noexcept {
    const std::uint64_t entries_bytes = kDirectoriesAtOnce * sizeof(DirectoryEntry) * (step / kLeastRecordBytes + 1);
    const std::uint64_t own_bytes = files.kind_bytes + directory_bytes(entries_.size()) + step + entries_bytes;
    const std::uint64_t other_bytes = files.used_bytes - files.kind_bytes;
    const std::uint64_t all = place_.max_bytes - std::min(place_.max_bytes, other_bytes);
    return own_bytes <= (is_merging_ ? all : room_for(place_.kind, place_.max_bytes, other_bytes));
}

// Reserves under the store's lock, so that several processes together stay within its bytes.
int RecordAppender::make_room(std::uint64_t bytes) {
    const std::uint64_t needed_end = writer_.end() + bytes;
    if (needed_end <= granted_end_) return 0;
    FolderLock lock;
    if (const int error = FolderLock::take(place_.folder, "lock", true, &lock); error != 0) return error;
    FolderFiles files;
    if (const int error = list_record_files(place_.folder, place_.kind, &files); error != 0) return error;
    const std::uint64_t asked = std::clamp(place_.max_bytes / 64, kMinStep, kMaxStep);
    const std::uint64_t least = needed_end - granted_end_;
    std::uint64_t step = std::max(asked, least);
    while (step > least && !has_room(files, step)) step = std::max(least, step / 2);
    if (!has_room(files, step)) return kStoreIsFull;
    const std::uint64_t new_end = (granted_end_ + step + kPageBytes - 1) / kPageBytes * kPageBytes;
    if (new_end > writer_.reserved_end()) {
        if (const int error = writer_.reserve(new_end - writer_.reserved_end()); error != 0) {
            return error;
        }
    }
    granted_end_ = new_end;
    return 0;
}

int RecordAppender::append(const ContentKey& key, std::uint32_t rank, ByteSpan record, RecordPlace* written) {
    const std::uint64_t bytes = record_file_bytes(record.size());
    if (!writer_.is_open()) {
        if (const int error = begin_file(); error != 0) return error;
    } else if (writer_.end() + bytes > max_file_bytes_) {
        return EFBIG;
    }
    if (const int error = make_room(bytes); error != 0) return error;
    if (entries_.size() == entries_.capacity()) entries_.reserve(2 * entries_.size() + 1024);
    const RecordHead head = {key, static_cast<std::uint32_t>(record.size()), rank};
    if (const int error = writer_.append(head, record, written); error != 0) return error;
    entries_.push_back({key.hash, written->offset, written->size, rank});
    bytes_written_ += bytes;
    unpushed_bytes_ += bytes;
    if (unpushed_bytes_ >= kPushedBytes) {
        writer_.push_out();
        unpushed_bytes_ = 0;
    }
    return 0;
}

int RecordAppender::publish(std::shared_ptr<const OpenedRecords>* opened) {
    opened->reset();
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

int RecordAppender::publish_for_good(std::shared_ptr<const OpenedRecords>* opened) {
    opened->reset();
    if (!has_unpublished()) return 0;
    const int error = writer_.trim();
    return error != 0 ? error : publish(opened);
}

void RecordAppender::close() noexcept {
    if (!writer_.is_open()) return;
    FolderLock lock;
    // Without the lock, reserved space stays until somebody opens the store.
    if (FolderLock::take(place_.folder, "lock", true, &lock) == 0) {
        const bool is_published = !is_missing(place_.folder, FileName(writer_.name(), ".dir").c_str());
        static_cast<void>(is_published ? writer_.trim()
                                       : unlink_in_folder(place_.folder, FileName(writer_.name(), ".dat").c_str()));
    }
    writer_ = RecordFileWriter();
    file_.reset();
    entries_.clear();
    entries_.shrink_to_fit();
    num_published_ = 0;
    granted_end_ = 0;
    unpushed_bytes_ = 0;
}

}  // namespace fastload

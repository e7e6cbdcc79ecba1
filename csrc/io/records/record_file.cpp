#include "io/records/record_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>

#include "io/records/file_calls.h"

namespace fastload {
namespace {

// The heads are written as they lie in memory: padding between the members could give away other data.
static_assert(sizeof(RecordFileHead) == 40 && std::is_trivially_copyable_v<RecordFileHead>);
static_assert(sizeof(RecordHead) == 32 && std::is_trivially_copyable_v<RecordHead>);
static_assert(sizeof(RecordFileHead) % kRecordAlignment == 0);

constexpr int kMaxNames = 16;  // tries; the second one is practically never needed

int fill_randomly(Span<std::uint8_t> bytes) noexcept {
    // The system fills up to 256 bytes in one call.
    return error_of([&] { return ::getrandom(bytes.data(), bytes.size(), 0); });
}

// Makes a name that almost certainly nobody has. Returns ENOMEM if there is no memory for it.
int make_name(RecordKind kind, std::string* name) noexcept try {
    std::uint64_t number = 0;
    if (const int error = fill_randomly(bytes_of_value(&number)); error != 0) return error;
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016" PRIx64, number);
    *name = std::string(record_kind_name(kind)) + "-" + digits;
    return 0;
} catch (const std::bad_alloc&) {
    return ENOMEM;
}

int create_file(int folder, RecordKind kind, std::string* name, UniqueFd* file) noexcept {
    int error = EEXIST;
    for (int i = 0; i < kMaxNames && error == EEXIST; ++i) {
        error = make_name(kind, name);
        if (error != 0) return error;
        error = open_in_folder(folder, FileName(*name, ".dat").c_str(), O_RDWR | O_CREAT | O_EXCL, file);
    }
    return error;
}

int write_head(int file, const RecordFileHead& head) noexcept {
    const ByteSpan part = bytes_of_value(head);
    return write_at(file, 0, {&part, 1});
}

}  // namespace

const char* record_kind_name(RecordKind kind) noexcept {
    constexpr const char* kNames[] = {"index", "coefficients", "pixels"};
    return kNames[static_cast<std::uint32_t>(kind) - 1];
}

RecordFileVerdict judge_head(const RecordFileHead& head, std::size_t size, const RecordFileHead& expected,
                             int* error) noexcept {
    *error = 0;
    const bool is_known = size >= kVersionedHeadBytes && head.magic == expected.magic &&
                          head.byte_order == expected.byte_order && head.format_version == expected.format_version &&
                          head.kind == expected.kind && head.decoder_revision == expected.decoder_revision;
    if (size >= kVersionedHeadBytes && !is_known) return RecordFileVerdict::kForeign;
    if (size >= sizeof head) return RecordFileVerdict::kGood;
    *error = EBADMSG;
    return RecordFileVerdict::kFailed;
}

RecordFileVerdict RecordFile::open(int folder, const std::string& name, RecordKind kind, std::uint32_t decoder_revision,
                                   RecordFile* file, int* error) noexcept {
    TrustedFile opened;
    RecordFileVerdict verdict = open_trusted_file(folder, FileName(name, ".dat").c_str(), O_RDONLY, &opened, error);
    if (verdict != RecordFileVerdict::kGood) return verdict;
    RecordFileHead head;
    std::size_t size = 0;
    *error = read_at(opened.descriptor.get(), 0, bytes_of_value(&head), &size);
    if (*error != 0) return RecordFileVerdict::kFailed;
    RecordFileHead expected;
    expected.kind = kind;
    expected.decoder_revision = decoder_revision;
    verdict = judge_head(head, size, expected, error);
    if (verdict != RecordFileVerdict::kGood) return verdict;
    file->file_ = std::move(opened.descriptor);
    file->id_ = head.id;
    return verdict;
}

int RecordFile::find_size(std::uint64_t* size) const noexcept {
    struct stat facts = {};
    const int error = find_facts(file_.get(), &facts);
    if (error == 0) *size = static_cast<std::uint64_t>(facts.st_size);
    return error;
}

bool RecordFile::read(const RecordPlace& place, Span<std::uint8_t> buffer, RecordHead* head,
                      int* error) const noexcept {
    *error = 0;
    if (buffer.size() > place.size) return false;
    RecordHead found;
    const std::array<Span<std::uint8_t>, 2> parts = {bytes_of_value(&found), buffer};
    std::size_t size = 0;
    *error = read_at(file_.get(), place.offset, {parts.data(), parts.size()}, &size);
    if (*error != 0 || size < sizeof found + buffer.size() || found.size != place.size) return false;
    *head = found;
    return true;
}

bool RecordFile::read_part(const RecordPlace& place, std::uint64_t offset, Span<std::uint8_t> buffer,
                           int* error) const noexcept {
    *error = 0;
    if (offset > place.size || buffer.size() > place.size - offset) return false;
    std::size_t size = 0;
    *error = read_at(file_.get(), place.offset + sizeof(RecordHead) + offset, buffer, &size);
    return *error == 0 && size == buffer.size();
}

bool RecordFile::try_lock() const noexcept { return try_lock_file(file_.get()) == 0; }

int RecordFileWriter::create(int folder, RecordKind kind, std::uint32_t decoder_revision,
                             RecordFileWriter* writer) noexcept {
    RecordFileWriter made;
    RecordFileHead head;
    head.kind = kind;
    head.decoder_revision = decoder_revision;
    if (const int error = fill_randomly(bytes_of_value(&head.id)); error != 0) return error;
    if (const int error = create_file(folder, kind, &made.name_, &made.file_); error != 0) return error;
    int error = try_lock_file(made.file_.get());
    if (error == 0) error = write_head(made.file_.get(), head);
    if (error != 0) {
        // If that fails, too, a .dat without .dir stays, which any process may remove.
        static_cast<void>(unlink_in_folder(folder, FileName(made.name_, ".dat").c_str()));
        return error;
    }
    made.id_ = head.id;
    made.end_ = sizeof head;
    *writer = std::move(made);
    return 0;
}

int RecordFileWriter::reopen(int folder, const std::string& name, const RecordFileId& id, RecordFileWriter* writer) {
    TrustedFile file;
    int error = 0;
    const RecordFileVerdict verdict = open_trusted_file(folder, FileName(name, ".dat").c_str(), O_RDWR, &file, &error);
    if (verdict == RecordFileVerdict::kUntrusted) return EPERM;
    if (error == 0) error = try_lock_file(file.descriptor.get());
    if (error != 0) return error;
    writer->file_ = std::move(file.descriptor);
    writer->name_ = name;
    writer->id_ = id;
    return 0;
}

int RecordFileWriter::go_on_from(std::uint64_t end) noexcept {
    struct stat facts = {};
    int error = find_facts(file_.get(), &facts);
    if (error == 0 && static_cast<std::uint64_t>(facts.st_size) < end) error = EBADMSG;
    if (error == 0) error = truncate_file(file_.get(), end);
    end_ = pushed_end_ = end;
    return error;
}

int RecordFileWriter::append(const RecordHead& head, ByteSpan record, RecordPlace* place) noexcept {
    if (record.size() > std::numeric_limits<std::uint32_t>::max()) return EFBIG;
    RecordHead written = head;
    written.size = static_cast<std::uint32_t>(record.size());
    const std::uint64_t next = end_ + record_file_bytes(record.size());
    constexpr std::array<std::uint8_t, kRecordAlignment> kZeros = {};
    const std::size_t num_zeros = next - end_ - sizeof written - record.size();
    const std::array<ByteSpan, 3> parts = {bytes_of_value(written), record, ByteSpan(kZeros.data(), num_zeros)};
    if (const int error = write_at(file_.get(), end_, {parts.data(), parts.size()}); error != 0) return error;
    *place = {end_, written.size};
    end_ = next;
    return 0;
}

void RecordFileWriter::push_out() noexcept {
    if (end_ == pushed_end_) return;  // 0 bytes would mean: to the end of the file
    // Only advice; sync() reports a failure.
    static_cast<void>(::sync_file_range(file_.get(), static_cast<off_t>(pushed_end_),
                                        static_cast<off_t>(end_ - pushed_end_), SYNC_FILE_RANGE_WRITE));
    pushed_end_ = end_;
}

int RecordFileWriter::sync() noexcept {
    return error_of([&] { return ::fdatasync(file_.get()); });
}

}  // namespace fastload

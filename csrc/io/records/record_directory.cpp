#include "io/records/record_directory.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <utility>

#include "io/records/file_calls.h"

namespace fastload {
namespace {

constexpr std::array<char, 8> kMagic = {'f', 'l', 'r', 'e', 'c', 'd', 'i', 'r'};

// The head of a .dir; the entries follow.
struct DirectoryHead {
    RecordFileHead file;  // with the .dat's id
    std::uint64_t generation = 0;
    std::uint64_t covered_bytes = 0;
    std::uint64_t num_entries = 0;
    ContentHash entries_check;
    ContentHash head_check;  // of the bytes before it
};
static_assert(sizeof(DirectoryHead) == 96 && std::is_trivially_copyable_v<DirectoryHead>);
static_assert(sizeof(DirectoryEntry) == 32 && std::is_trivially_copyable_v<DirectoryEntry>);

RecordFileHead file_head(RecordKind kind, std::uint32_t decoder_revision) noexcept {
    RecordFileHead head;
    head.magic = kMagic;
    head.kind = kind;
    head.decoder_revision = decoder_revision;
    return head;
}

ByteSpan bytes_of_entries(const std::vector<DirectoryEntry>& entries) noexcept {
    return {reinterpret_cast<const std::uint8_t*>(entries.data()), entries.size() * sizeof(DirectoryEntry)};
}

ContentHash check_of_head(const HashKey& key, const DirectoryHead& head) noexcept {
    return content_hash(key, bytes_of_value(head).subspan(0, offsetof(DirectoryHead, head_check)));
}

DirectoryHead head_of(RecordKind kind, std::uint32_t decoder_revision, const HashKey& key,
                      const RecordDirectory& directory) noexcept {
    DirectoryHead head;
    head.file = file_head(kind, decoder_revision);
    head.file.id = directory.id;
    head.generation = directory.generation;
    head.covered_bytes = directory.covered_bytes;
    head.num_entries = directory.entries.size();
    head.entries_check = content_hash(key, bytes_of_entries(directory.entries));
    head.head_check = check_of_head(key, head);
    return head;
}

// Creates the temporary file. A file of that name is replaced: a writer of this .dat has left it because it could not
// remove it, and the caller holds the .dat's lock.
int create_temporary(int folder, const char* name, UniqueFd* file) noexcept {
    constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL;
    int error = open_in_folder(folder, name, kFlags, file);
    if (error == EEXIST) error = unlink_in_folder(folder, name);
    return error == 0 && !file->is_open() ? open_in_folder(folder, name, kFlags, file) : error;
}

int write_synced(int file, const DirectoryHead& head, const std::vector<DirectoryEntry>& entries) noexcept {
    const std::array<ByteSpan, 2> parts = {bytes_of_value(head), bytes_of_entries(entries)};
    if (const int error = write_at(file, 0, {parts.data(), parts.size()}); error != 0) return error;
    return error_of([&] { return ::fsync(file); });
}

int sync_folder(int folder) noexcept {
    const int error = error_of([&] { return ::fsync(folder); });
    return error == EINVAL ? 0 : error;  // a file system that writes folders at once
}

// Returns whether `size` bytes hold a head and the entries that it counts.
bool is_size_of(std::uint64_t size, std::uint64_t num_entries) noexcept {
    const std::uint64_t bytes = size - sizeof(DirectoryHead);
    return size >= sizeof(DirectoryHead) && bytes % sizeof(DirectoryEntry) == 0 &&
           bytes / sizeof(DirectoryEntry) == num_entries;
}

bool is_covered(const DirectoryEntry& entry, std::uint64_t covered_bytes) noexcept {
    return entry.offset >= sizeof(RecordFileHead) && entry.offset % kRecordAlignment == 0 &&
           entry.offset <= covered_bytes && record_file_bytes(entry.size) <= covered_bytes - entry.offset;
}

bool is_valid(const RecordDirectory& directory) noexcept {
    constexpr auto kLargestFile = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());
    const std::uint64_t covered = directory.covered_bytes;
    if (covered < sizeof(RecordFileHead) || covered > kLargestFile || covered % kRecordAlignment != 0) return false;
    const auto& entries = directory.entries;
    for (std::size_t i = 0; i < entries.size(); ++i) {
        if (!is_covered(entries[i], covered)) return false;
        if (i > 0 && comes_before(entries[i], entries[i - 1])) return false;
    }
    return true;
}

// Reads the head of a file and checks only its form. Its kind and decoder must be as in `expected`; without that they
// may be any.
RecordFileVerdict read_head(int file, const RecordFileHead* expected, DirectoryHead* head, int* error) noexcept {
    std::size_t size = 0;
    *error = read_at(file, 0, bytes_of_value(head), &size);
    if (*error != 0) return RecordFileVerdict::kFailed;
    const RecordFileHead any = file_head(head->file.kind, head->file.decoder_revision);
    const RecordFileVerdict verdict = judge_head(head->file, size, expected != nullptr ? *expected : any, error);
    if (verdict != RecordFileVerdict::kGood || size == sizeof *head) return verdict;
    *error = EBADMSG;
    return RecordFileVerdict::kFailed;
}

// Reads the entries of a head that was found right. Returns EBADMSG if they are damaged.
int read_entries(int file, const HashKey& key, const DirectoryHead& head, RecordDirectory* directory) {
    directory->entries.resize(head.num_entries);
    const ByteSpan bytes = bytes_of_entries(directory->entries);
    std::size_t size = 0;
    const Span<std::uint8_t> buffer(reinterpret_cast<std::uint8_t*>(directory->entries.data()), bytes.size());
    if (const int error = read_at(file, sizeof head, buffer, &size); error != 0) return error;
    const bool is_whole = size == bytes.size() && content_hash(key, bytes) == head.entries_check;
    return is_whole && is_valid(*directory) ? 0 : EBADMSG;
}

}  // namespace

bool comes_before(const DirectoryEntry& a, const DirectoryEntry& b) noexcept {
    return a.hash.low != b.hash.low ? a.hash.low < b.hash.low : a.hash.high < b.hash.high;
}

int write_record_directory(int folder, const std::string& name, RecordKind kind, std::uint32_t decoder_revision,
                           const HashKey& key, const RecordDirectory& directory) {
    const FileName temporary(name, ".tmp");
    UniqueFd file;
    if (const int error = create_temporary(folder, temporary.c_str(), &file); error != 0) return error;
    int error = write_synced(file.get(), head_of(kind, decoder_revision, key, directory), directory.entries);
    const FileName final_name(name, ".dir");
    if (error == 0) {
        error = error_of([&] { return ::renameat(folder, temporary.c_str(), folder, final_name.c_str()); });
    }
    if (error == 0) return sync_folder(folder);
    // If that fails, too, the next call removes the file, or any process that finds the .dat's lock free.
    static_cast<void>(unlink_in_folder(folder, temporary.c_str()));
    return error;
}

RecordFileVerdict read_record_directory(int folder, const std::string& name, RecordKind kind,
                                        std::uint32_t decoder_revision, const HashKey& key, RecordDirectory* directory,
                                        int* error) {
    TrustedFile file;
    RecordFileVerdict verdict = open_trusted_file(folder, FileName(name, ".dir").c_str(), O_RDONLY, &file, error);
    if (verdict != RecordFileVerdict::kGood) return verdict;
    DirectoryHead head;
    const RecordFileHead expected = file_head(kind, decoder_revision);
    verdict = read_head(file.descriptor.get(), &expected, &head, error);
    if (verdict != RecordFileVerdict::kGood) return verdict;
    *error = EBADMSG;
    if (!(check_of_head(key, head) == head.head_check)) return RecordFileVerdict::kFailed;
    // The file's size bounds the count before memory is allocated for it.
    if (!is_size_of(file.size, head.num_entries)) return RecordFileVerdict::kFailed;
    RecordDirectory found;
    found.id = head.file.id;
    found.generation = head.generation;
    found.covered_bytes = head.covered_bytes;
    *error = read_entries(file.descriptor.get(), key, head, &found);
    if (*error != 0) return RecordFileVerdict::kFailed;
    *directory = std::move(found);
    return RecordFileVerdict::kGood;
}

RecordFileVerdict read_record_generation(int folder, const std::string& name, std::uint64_t* generation,
                                         int* error) noexcept {
    TrustedFile file;
    DirectoryHead head;
    RecordFileVerdict verdict = open_trusted_file(folder, FileName(name, ".dir").c_str(), O_RDONLY, &file, error);
    if (verdict == RecordFileVerdict::kGood) verdict = read_head(file.descriptor.get(), nullptr, &head, error);
    if (verdict == RecordFileVerdict::kGood) *generation = head.generation;
    return verdict;
}

}  // namespace fastload

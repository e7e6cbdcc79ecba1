// A .dir of any bytes, of any bytes with right checksums, and one as a holder of the key may write it. An accepted one
// keeps the promises of the header, and is equal to what was written.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fuzz_input.h"
#include "record_folders.h"

namespace fastload {
namespace {

using fuzzing::Input;
using fuzzing::require;
using testing::kDecoderRevision;
using testing::read_directory;
using testing::ReadDirectory;
using testing::RecordFolder;
using testing::signed_directory;
using testing::store_key;

constexpr std::uint64_t kFileHeadBytes = 40;
constexpr std::uint64_t kRecordHeadBytes = 32;
constexpr std::uint64_t kDirectoryHeadBytes = 96;
constexpr std::uint64_t kEntryBytes = 32;

std::string name_of(RecordKind kind) { return record_kind_name(kind) + std::string("-0123456789abcdef"); }

ReadDirectory read(const RecordFolder& folder, RecordKind kind) { return read_directory(folder, name_of(kind), kind); }

bool is_inside(const DirectoryEntry& entry, std::uint64_t covered_bytes) {
    __extension__ using Wide = unsigned __int128;
    const Wide end = Wide{entry.offset} + kRecordHeadBytes + entry.size;
    return entry.offset >= kFileHeadBytes && entry.offset % 8 == 0 && (end + 7) / 8 * 8 <= covered_bytes;
}

// The promises of record_directory.h for a valid one.
bool is_promised(const RecordDirectory& directory) {
    const auto is_placed = [&](const DirectoryEntry& entry) { return is_inside(entry, directory.covered_bytes); };
    return directory.covered_bytes >= kFileHeadBytes && directory.covered_bytes % 8 == 0 &&
           directory.covered_bytes < std::uint64_t{1} << 63 &&
           std::all_of(directory.entries.begin(), directory.entries.end(), is_placed) &&
           std::is_sorted(directory.entries.begin(), directory.entries.end(), comes_before);
}

int write(const RecordFolder& folder, RecordKind kind, const RecordDirectory& directory) {
    return write_record_directory(folder.descriptor(), name_of(kind), kind, kDecoderRevision, store_key(), directory);
}

void require_numbers(const RecordFolder& folder, const std::string& name, const RecordDirectory& directory) {
    std::uint64_t number = 0;
    int error = 0;
    require(read_record_generation(folder.descriptor(), name, &number, &error) == RecordFileVerdict::kGood);
    require(number == directory.generation);
}

void check_bytes(const RecordFolder& folder, RecordKind kind, const std::string& bytes) {
    const std::string name = name_of(kind);
    folder.write(name + ".dir", bytes);
    const ReadDirectory found = read(folder, kind);
    if (found.verdict != RecordFileVerdict::kGood) {
        require(found.verdict == RecordFileVerdict::kForeign || found.is_damaged());
        return require(found.directory.entries.empty());
    }
    require(is_promised(found.directory));
    require(bytes.size() == kDirectoryHeadBytes + kEntryBytes * found.directory.entries.size());
    require_numbers(folder, name, found.directory);
    require(write(folder, kind, found.directory) == 0 && folder.read(name + ".dir") == bytes);
}

// Positions that are more likely to be valid than random bytes.
RecordDirectory any_directory(Input* input) {
    RecordDirectory directory;
    directory.generation = input->raw<std::uint64_t>();
    directory.covered_bytes = input->choose(4) == 0 ? input->raw<std::uint64_t>() : 8 * input->raw<std::uint16_t>();
    const bool is_sorted = input->choose(2) == 0;
    for (int left = input->choose(20); left > 0; --left) {
        DirectoryEntry entry;
        entry.hash = {input->raw<std::uint8_t>(), input->raw<std::uint8_t>()};
        entry.offset = input->choose(16) == 0 ? input->raw<std::uint64_t>() : 8 * input->raw<std::uint16_t>();
        entry.size = input->choose(16) == 0 ? input->raw<std::uint32_t>() : input->raw<std::uint8_t>();
        directory.entries.push_back(entry);
    }
    if (is_sorted) std::sort(directory.entries.begin(), directory.entries.end(), comes_before);
    return directory;
}

void check_directory(const RecordFolder& folder, RecordKind kind, const RecordDirectory& directory) {
    require(write(folder, kind, directory) == 0);
    const ReadDirectory found = read(folder, kind);
    require(is_promised(directory) ? found.verdict == RecordFileVerdict::kGood : found.is_damaged());
    if (found.verdict == RecordFileVerdict::kGood) require(testing::are_same(found.directory, directory));
}

void check(const RecordFolder& folder, Input input) {
    const int choice = input.choose(6);
    const RecordKind kind = choice < 3 ? RecordKind::kIndex : RecordKind::kCoefficients;
    if (choice % 3 == 2) return check_directory(folder, kind, any_directory(&input));
    const std::string bytes(input.rest().begin(), input.rest().end());
    const bool is_signed = choice % 3 == 1 && bytes.size() >= kDirectoryHeadBytes;
    check_bytes(folder, kind, is_signed ? signed_directory(bytes) : bytes);
}

}  // namespace
}  // namespace fastload

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const fastload::testing::RecordFolder folder;
    fastload::check(folder, fastload::fuzzing::Input({data, size}));
    return 0;
}

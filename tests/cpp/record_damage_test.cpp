// Record files with random damage: a record that is found in one was written so, and any other is refused.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "record_folders.h"
#include "rounds.h"

namespace fastload {
namespace {

using testing::are_same;
using testing::content_key;
using testing::current_variant;
using testing::damaged;
using testing::kDecoderRevision;
using testing::open_file;
using testing::OpenedFile;
using testing::read_directory;
using testing::read_record;
using testing::ReadDirectory;
using testing::ReadRecord;
using testing::record_bytes;
using testing::RecordBytes;
using testing::RecordFolder;
using testing::store_key;
using testing::view_of;
using testing::Written;

constexpr std::uint64_t kNumRecords = 20;
constexpr std::size_t kCheckBytes = sizeof(ContentHash);

ContentHash check_of(const ContentKey& key, std::uint32_t rank, ByteSpan record) {
    RecordBytes all(record.begin(), record.end());
    const auto append = [&all](const auto& value) {
        const auto* bytes = reinterpret_cast<const std::uint8_t*>(&value);
        all.insert(all.end(), bytes, bytes + sizeof value);
    };
    append(key);
    append(rank);
    return content_hash(store_key(), view_of(all));
}

// Returns a record with what all kinds share: its last bytes tell whether it is whole.
RecordBytes checked_record(std::uint64_t number, std::uint32_t rank) {
    RecordBytes record = record_bytes(number, 5 * number + 1);
    const ContentHash check = check_of(content_key(number), rank, view_of(record));
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(&check);
    record.insert(record.end(), bytes, bytes + kCheckBytes);
    return record;
}

bool is_whole(const ReadRecord& read) {
    if (read.bytes.size() < kCheckBytes) return false;
    ContentHash check;
    std::memcpy(&check, read.bytes.data() + read.bytes.size() - kCheckBytes, kCheckBytes);
    return check_of(read.head.key, read.head.rank, {read.bytes.data(), read.bytes.size() - kCheckBytes}) == check;
}

void fill(const RecordFolder& folder, Written* written) {
    CHECK_EQUAL(written->create(folder), 0);
    for (std::uint64_t i = 0; i < kNumRecords; ++i) {
        const RecordBytes bytes = checked_record(i, 2);
        RecordPlace place;
        const ContentKey key = content_key(i);
        CHECK_EQUAL(written->writer.append({key, 0, 2}, view_of(bytes), &place), 0);
        written->directory.entries.push_back({key.hash, place.offset, place.size, 2});
    }
    CHECK_EQUAL(written->publish(folder), 0);
}

// Counts the records that are found.
std::uint64_t count_found(const RecordFolder& folder, const Written& written) {
    const std::string& name = written.writer.name();
    const OpenedFile opened = open_file(folder, name);
    const ReadDirectory read = read_directory(folder, name);
    if (read.verdict == RecordFileVerdict::kGood) CHECK(are_same(read.directory, written.directory));
    if (opened.verdict != RecordFileVerdict::kGood || !(opened.file.id() == read.directory.id)) return 0;
    std::uint64_t found = 0;
    for (std::uint64_t i = 0; i < kNumRecords; ++i) {
        const ContentKey key = content_key(i);
        for (const DirectoryEntry& entry : read.directory.entries) {
            if (!(entry.hash == key.hash)) continue;
            const ReadRecord record = read_record(opened.file, entry.place());
            CHECK_EQUAL(record.error, 0);
            if (!record.is_there || !(record.head.key == key) || !is_whole(record)) continue;
            CHECK(record.bytes == checked_record(i, 2));
            CHECK_EQUAL(record.head.rank, 2U);
            ++found;
        }
    }
    return found;
}

}  // namespace

TEST_CASE(damaged_files_of_records_give_what_was_written_or_nothing) {
    const RecordFolder folder;
    Written written;
    fill(folder, &written);
    CHECK_EQUAL(count_found(folder, written), kNumRecords);
    for (const char* ending : {".dat", ".dir"}) {
        const std::string name = written.writer.name() + ending;
        const std::string good = folder.read(name);
        std::uint64_t num_whole = 0;
        const std::uint64_t num_seeds = testing::rounds(5000);
        for (std::uint64_t seed = 0; seed < num_seeds; ++seed) {
            current_variant() = name + ", seed " + std::to_string(seed);
            std::mt19937_64 random(seed);
            const std::string bad = damaged(good, &random);
            folder.write(name, bad);
            const std::uint64_t found = count_found(folder, written);
            if (bad == good) CHECK_EQUAL(found, kNumRecords);
            num_whole += found;
        }
        current_variant().clear();
        folder.write(name, good);
        // A damaged .dat still gives the records that were not hit; a damaged .dir gives none.
        const bool is_directory = ending == std::string(".dir");
        CHECK(is_directory ? num_whole < num_seeds * kNumRecords / 10 : num_whole > num_seeds * kNumRecords / 3);
    }
    CHECK_EQUAL(count_found(folder, written), kNumRecords);
}

TEST_CASE(files_of_two_pairs_do_not_go_together) {
    const RecordFolder folder;
    Written first;
    Written second;
    fill(folder, &first);
    fill(folder, &second);
    CHECK(!(first.writer.id() == second.writer.id()));
    folder.write(first.writer.name() + ".dir", folder.read(second.writer.name() + ".dir"));
    const OpenedFile opened = open_file(folder, first.writer.name());
    const ReadDirectory read = read_directory(folder, first.writer.name());
    CHECK(opened.verdict == RecordFileVerdict::kGood && read.verdict == RecordFileVerdict::kGood);
    CHECK(!(opened.file.id() == read.directory.id));
}

}  // namespace fastload

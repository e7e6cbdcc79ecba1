#include "io/records/record_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "failing_allocation.h"
#include "hooked_calls.h"
#include "record_folders.h"

namespace fastload {
namespace {

using namespace testing;

const std::string kName = "index-00000000000000a1";

// Makes a directory of records of 8 to 72 bytes that fill the covered bytes.
RecordDirectory directory_of(std::size_t count) {
    RecordDirectory directory;
    directory.id = {17, 18};
    directory.generation = 3;
    directory.covered_bytes = sizeof(RecordFileHead);
    std::mt19937_64 random(count);
    for (std::size_t i = 0; i < count; ++i) {
        const auto size = static_cast<std::uint32_t>(random() % 65 + 8);
        directory.entries.push_back({{random(), random()}, directory.covered_bytes, size, 7});
        directory.covered_bytes += record_file_bytes(size);
    }
    std::sort(directory.entries.begin(), directory.entries.end(), comes_before);
    return directory;
}

int write(const RecordFolder& folder, const RecordDirectory& directory) {
    return write_record_directory(folder.descriptor(), kName, RecordKind::kIndex, kDecoderRevision, store_key(),
                                  directory);
}

bool is_read_as(const RecordFolder& folder, const RecordDirectory& directory) {
    const auto read = read_directory(folder, kName);
    return read.verdict == RecordFileVerdict::kGood && read.error == 0 && are_same(read.directory, directory);
}

// Returns whether a directory with this change is refused, though a holder of the key wrote it.
template <typename Change>
bool is_refused_after(Change change) {
    const RecordFolder folder;
    RecordDirectory directory = directory_of(5);
    change(&directory);
    CHECK_EQUAL(write(folder, directory), 0);
    return read_directory(folder, kName).is_damaged();
}

}  // namespace

TEST_CASE(record_directory_is_read_as_it_was_written) {
    const RecordFolder folder;
    Written written(folder);
    for (const std::uint64_t count : {0U, 1U, 50U}) {
        for (std::uint64_t i = 0; i < count; ++i) CHECK_EQUAL(written.append(i, 10 * i), 0);
        CHECK_EQUAL(written.publish(folder), 0);
        const auto read = read_directory(folder, written.writer.name());
        CHECK(read.verdict == RecordFileVerdict::kGood && read.error == 0);
        CHECK(are_same(read.directory, written.directory));
        std::uint64_t number = 0;
        int error = -1;
        CHECK(read_record_generation(folder.descriptor(), written.writer.name(), &number, &error) ==
              RecordFileVerdict::kGood);
        CHECK(number == written.directory.generation && error == 0);
    }
    const std::vector<std::string> names = {written.writer.name() + ".dat", written.writer.name() + ".dir"};
    CHECK(folder.names() == names);
    struct stat facts = {};
    CHECK(::stat(folder.path(names[1]).c_str(), &facts) == 0);
    CHECK_EQUAL(facts.st_mode & 0777, 0600U);
}

TEST_CASE(record_directory_comes_in_order_of_its_hashes) {
    const auto entry = [](std::uint64_t low, std::uint64_t high) { return DirectoryEntry{{low, high}, 40, 8, 0}; };
    CHECK(comes_before(entry(1, 9), entry(2, 0)));
    CHECK(!comes_before(entry(2, 0), entry(1, 9)));
    CHECK(comes_before(entry(1, 1), entry(1, 2)));
    CHECK(!comes_before(entry(1, 2), entry(1, 1)));
    CHECK(!comes_before(entry(1, 1), entry(1, 1)));
}

TEST_CASE(record_directory_may_have_several_records_of_a_key_and_overlapping_places) {
    const RecordFolder folder;
    RecordDirectory directory = directory_of(5);
    directory.entries[2].hash = directory.entries[1].hash;
    directory.entries[3].offset = directory.covered_bytes - 104;
    directory.entries[3].size = 72;
    directory.entries[4].offset = 40;
    directory.entries[4].size = static_cast<std::uint32_t>(directory.covered_bytes - 40 - 32);
    CHECK_EQUAL(write(folder, directory), 0);
    CHECK(is_read_as(folder, directory));
}

TEST_CASE(record_directory_says_only_what_the_file_of_records_may_have) {
    using Directory = RecordDirectory*;
    CHECK(!is_refused_after([](Directory) {}));
    CHECK(is_refused_after([](Directory it) { std::swap(it->entries[1], it->entries[2]); }));
    CHECK(is_refused_after([](Directory it) { std::swap(it->entries[0], it->entries[4]); }));
    CHECK(is_refused_after([](Directory it) { it->entries[0].offset += 4; }));
    CHECK(is_refused_after([](Directory it) { it->entries[3].offset = 32; }));
    CHECK(is_refused_after([](Directory it) { it->entries[3].offset = 0; }));
    CHECK(is_refused_after([](Directory it) { it->entries[4].offset = it->covered_bytes; }));
    CHECK(is_refused_after([](Directory it) { it->entries[4].offset = it->covered_bytes + 8; }));
    CHECK(is_refused_after([](Directory it) { it->entries[4].offset = ~7ULL; }));
    CHECK(is_refused_after([](Directory it) { it->entries[4] = {it->entries[4].hash, it->covered_bytes - 32, 1, 0}; }));
    CHECK(is_refused_after([](Directory it) { it->entries[2].size = ~0U; }));
    CHECK(is_refused_after([](Directory it) { it->covered_bytes -= 8; }));
    CHECK(is_refused_after([](Directory it) { it->covered_bytes += 4; }));
    CHECK(is_refused_after([](Directory it) { it->covered_bytes = 1ULL << 63; }));
    CHECK(!is_refused_after([](Directory it) { it->covered_bytes = (1ULL << 63) - 8; }));
    CHECK(is_refused_after([](Directory it) {
        it->entries.clear();
        it->covered_bytes = 32;
    }));
    CHECK(!is_refused_after([](Directory it) {
        it->entries.clear();
        it->covered_bytes = 40;
    }));
}

TEST_CASE(record_directory_that_is_cut_or_longer_is_damaged) {
    const RecordFolder folder;
    CHECK_EQUAL(write(folder, directory_of(4)), 0);
    const std::string good = folder.read(kName + ".dir");
    CHECK_EQUAL(good.size(), 96U + 4 * 32);
    for (std::size_t size = 0; size < good.size(); ++size) {
        folder.write(kName + ".dir", good.substr(0, size));
        CHECK(read_directory(folder, kName).is_damaged());
    }
    for (const std::size_t more : {1U, 31U, 32U, 64U}) {
        folder.write(kName + ".dir", good + std::string(more, '\0'));
        CHECK(read_directory(folder, kName).is_damaged());
    }
}

TEST_CASE(record_directory_with_one_wrong_bit_is_refused) {
    const RecordFolder folder;
    CHECK_EQUAL(write(folder, directory_of(4)), 0);
    const std::string good = folder.read(kName + ".dir");
    for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
        folder.write(kName + ".dir", with_value(good, bit / 8, static_cast<char>(good[bit / 8] ^ 1 << bit % 8)));
        const auto read = read_directory(folder, kName);
        const bool is_of_form = bit / 8 < 24;
        CHECK(is_of_form ? read.verdict == RecordFileVerdict::kForeign && read.error == 0 : read.is_damaged());
        CHECK(read.directory.entries.empty());
    }
}

TEST_CASE(record_directory_of_another_form_is_foreign_with_any_checksum) {
    const RecordFolder folder;
    CHECK_EQUAL(write(folder, directory_of(4)), 0);
    const std::string good = folder.read(kName + ".dir");
    const auto is_foreign = [&](const std::string& bytes) {
        folder.write(kName + ".dir", bytes);
        const auto read = read_directory(folder, kName);
        return read.verdict == RecordFileVerdict::kForeign && read.error == 0;
    };
    CHECK(!is_foreign(signed_directory(good)));
    CHECK(is_foreign(signed_directory(with_bytes(good, 0, "flrecord"))));
    CHECK(is_foreign(signed_directory(with_value(good, 8, std::uint32_t{0x04030201}))));
    CHECK(is_foreign(signed_directory(with_value(good, 12, std::uint32_t{2}))));
    CHECK(is_foreign(signed_directory(with_value(good, 16, std::uint32_t{2}))));
    CHECK(is_foreign(signed_directory(with_value(good, 20, kDecoderRevision + 1))));
    CHECK(is_foreign(with_value(good, 12, std::uint32_t{2}).substr(0, 24)));
    CHECK(!is_foreign(with_value(good, 12, std::uint32_t{2}).substr(0, 23)));
    // A read of the head alone accepts any kind and decoder, but only one format.
    const auto generation_verdict = [&](const std::string& bytes) {
        folder.write(kName + ".dir", bytes);
        std::uint64_t generation = 0;
        int error = 0;
        return read_record_generation(folder.descriptor(), kName, &generation, &error);
    };
    CHECK(generation_verdict(with_value(good, 16, std::uint32_t{2})) == RecordFileVerdict::kGood);
    CHECK(generation_verdict(with_value(good, 20, std::uint32_t{9})) == RecordFileVerdict::kGood);
    CHECK(generation_verdict(with_value(good, 12, std::uint32_t{2})) == RecordFileVerdict::kForeign);
    CHECK(generation_verdict(good.substr(0, 95)) == RecordFileVerdict::kFailed);
    CHECK(generation_verdict(good.substr(0, 96)) == RecordFileVerdict::kGood);
}

TEST_CASE(record_directory_of_another_store_is_damaged) {
    const RecordFolder folder;
    CHECK_EQUAL(write_record_directory(folder.descriptor(), kName, RecordKind::kIndex, kDecoderRevision, store_key(2),
                                       directory_of(4)),
                0);
    CHECK(read_directory(folder, kName).is_damaged());
}

TEST_CASE(record_directory_that_counts_more_than_it_has_takes_no_memory) {
    const RecordFolder folder;
    CHECK_EQUAL(write(folder, directory_of(4)), 0);
    const std::string good = folder.read(kName + ".dir");
    for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{3}, std::uint64_t{5}, std::uint64_t{1} << 32,
                                      std::uint64_t{1} << 59, (std::uint64_t{1} << 59) + 4, ~std::uint64_t{0}}) {
        folder.write(kName + ".dir", signed_directory(with_value(good, 56, count)));
        RecordDirectory directory;
        int error = 0;
        const std::int64_t before = num_allocations();
        const RecordFileVerdict verdict = read_record_directory(folder.descriptor(), kName, RecordKind::kIndex,
                                                                kDecoderRevision, store_key(), &directory, &error);
        CHECK_EQUAL(num_allocations(), before);
        CHECK(verdict == RecordFileVerdict::kFailed && error == EBADMSG);
    }
}

TEST_CASE(record_directory_that_others_may_have_made_is_not_read) {
    const RecordFolder folder;
    CHECK_EQUAL(write(folder, directory_of(2)), 0);
    check_trust(folder, kName + ".dir", [&](RecordFileVerdict expected) {
        CHECK(read_directory(folder, kName).verdict == expected);
        std::uint64_t generation = 0;
        int error = 0;
        CHECK(read_record_generation(folder.descriptor(), kName, &generation, &error) == expected);
    });
    const auto missing = read_directory(folder, "index-00000000000000a2");
    CHECK(missing.verdict == RecordFileVerdict::kFailed);
    CHECK_EQUAL(missing.error, ENOENT);
}

TEST_CASE(record_directory_is_on_disk_before_it_has_its_name) {
    const RecordFolder folder;
    const RecordDirectory directory = directory_of(2);
    const HookedCalls hooked;
    CHECK_EQUAL(write(folder, directory), 0);
    const std::vector<std::string> expected = {"openat", "pwritev", "fsync", "renameat", "fsync"};
    CHECK(hooked.names() == expected);
}

TEST_CASE(record_directory_that_cannot_be_written_leaves_the_one_before) {
    for (const int error : {EIO, ENOSPC, EDQUOT, EROFS, EMFILE}) {
        const RecordFolder folder;
        const RecordDirectory before = directory_of(3);
        RecordDirectory after = directory_of(5);
        after.generation = 4;
        CHECK_EQUAL(write(folder, before), 0);
        int n = 0;
        for (bool was_reached = true; was_reached;) {
            {
                const HookedCalls failing(++n, error);
                const int result = write(folder, after);
                was_reached = failing.was_reached();
                CHECK_EQUAL(result, was_reached ? error : 0);
            }
            const bool has_its_name = n > 4;
            CHECK(is_read_as(folder, has_its_name ? after : before));
            CHECK(folder.names() == std::vector<std::string>{kName + ".dir"});
        }
        CHECK_EQUAL(n, 6);
    }
}

TEST_CASE(record_directory_needs_no_sync_of_a_folder_that_has_none) {
    const RecordFolder folder;
    const HookedCalls failing(5, EINVAL);
    CHECK_EQUAL(write(folder, directory_of(2)), 0);
    CHECK(failing.was_reached());
}

TEST_CASE(record_directory_replaces_the_remains_of_a_dead_writer) {
    const RecordFolder folder;
    folder.write(kName + ".tmp", "half");
    CHECK_EQUAL(write(folder, directory_of(2)), 0);
    CHECK(is_read_as(folder, directory_of(2)));
    CHECK(::mkdir(folder.path(kName + ".tmp").c_str(), 0700) == 0);
    CHECK(write(folder, directory_of(3)) != 0);
    CHECK(is_read_as(folder, directory_of(2)));
}

TEST_CASE(record_directory_that_cannot_be_read_says_so_and_is_read_later) {
    const RecordFolder folder;
    const RecordDirectory written = directory_of(5);
    CHECK_EQUAL(write(folder, written), 0);
    for (const int result : {EIO, EACCES, EINTR, HookedCalls::kMovesOneByte}) {
        const bool goes_on = result == EINTR || result == HookedCalls::kMovesOneByte;
        int n = 0;
        for (bool was_reached = true; was_reached;) {
            testing::ReadDirectory read;
            {
                const HookedCalls hooked(++n, result);
                read = read_directory(folder, kName);
                was_reached = hooked.was_reached();
            }
            if (was_reached && !goes_on) {
                CHECK(read.verdict == RecordFileVerdict::kFailed);
                CHECK_EQUAL(read.error, result);
            } else {
                CHECK(read.verdict == RecordFileVerdict::kGood && are_same(read.directory, written));
            }
            CHECK(is_read_as(folder, written));
        }
        CHECK(n >= 5);
    }
}

TEST_CASE(record_directory_that_is_exchanged_or_cut_meanwhile_is_one_of_both_or_damaged) {
    const RecordDirectory first = directory_of(5);
    RecordDirectory second = directory_of(9);
    second.generation = 4;
    for (const bool is_cut : {false, true}) {
        int n = 0;
        for (bool was_reached = true; was_reached;) {
            const RecordFolder folder;
            CHECK_EQUAL(write(folder, first), 0);
            const HookedCalls hooked(++n, [&] {
                if (!is_cut) return write(folder, second);
                return ::truncate(folder.path(kName + ".dir").c_str(), 100) == 0 ? 0 : EIO;
            });
            const auto read = read_directory(folder, kName);
            was_reached = hooked.was_reached();
            const bool is_good = read.verdict == RecordFileVerdict::kGood;
            CHECK(is_good ? are_same(read.directory, first) || are_same(read.directory, second) : read.is_damaged());
            CHECK(is_good == (!is_cut || !was_reached));
        }
    }
}

TEST_CASE(record_directory_without_memory_throws_and_leaves_the_result_alone) {
    const RecordFolder folder;
    CHECK_EQUAL(write(folder, directory_of(5)), 0);
    RecordDirectory directory = directory_of(2);
    for (int n = 1;; ++n) {
        bool has_thrown = false;
        {
            const FailingAllocation failing(n, false);
            int error = 0;
            try {
                CHECK(read_record_directory(folder.descriptor(), kName, RecordKind::kIndex, kDecoderRevision,
                                            store_key(), &directory, &error) == RecordFileVerdict::kGood);
            } catch (const std::bad_alloc&) {
                has_thrown = true;
            }
            if (!FailingAllocation::has_failed()) break;
        }
        CHECK(has_thrown && are_same(directory, directory_of(2)));
    }
    CHECK(are_same(directory, directory_of(5)));
    const FailingAllocation failing(1, true);
    CHECK_EQUAL(write(folder, directory), 0);  // needs no memory
}

}  // namespace fastload

#include "io/records/record_file.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <string>
#include <vector>

#include "check.h"
#include "failing_allocation.h"
#include "forked_child.h"
#include "hooked_calls.h"
#include "record_folders.h"

namespace fastload {
namespace {

using testing::check_trust;
using testing::content_key;
using testing::FailingAllocation;
using testing::HookedCalls;
using testing::in_forked_child;
using testing::kDecoderRevision;
using testing::open_file;
using testing::read_directory;
using testing::read_record;
using testing::ReadRecord;
using testing::record_bytes;
using testing::RecordBytes;
using testing::RecordFolder;
using testing::view_of;
using testing::with_value;
using testing::Written;

void check_reserved_space(const RecordFolder& folder) {
    Written written;
    CHECK_EQUAL(written.create(folder), 0);
    RecordFileWriter& writer = written.writer;
    const std::string path = folder.path(writer.name() + ".dat");
    const auto facts_of = [&path] {
        struct stat facts = {};
        CHECK(::stat(path.c_str(), &facts) == 0);
        return facts;
    };
    CHECK_EQUAL(writer.reserved_end(), 40U);
    CHECK_EQUAL(writer.reserve(0), 0);
    CHECK_EQUAL(writer.reserve(1 << 20), 0);
    CHECK_EQUAL(writer.reserved_end(), 40U + (1 << 20));
    CHECK_EQUAL(facts_of().st_size, 40);
    CHECK(facts_of().st_blocks * 512 >= 1 << 20);
    CHECK_EQUAL(writer.reserve(1 << 20), 0);
    CHECK_EQUAL(writer.reserved_end(), 40U + (2 << 20));
    CHECK(facts_of().st_blocks * 512 >= 2 << 20);
    CHECK_EQUAL(written.append(1, 1000), 0);
    CHECK_EQUAL(writer.reserved_end(), 40U + (2 << 20));
    CHECK_EQUAL(writer.trim(), 0);
    CHECK_EQUAL(writer.reserved_end(), writer.end());
    CHECK(facts_of().st_blocks * 512 <= 1 << 16);
    CHECK_EQUAL(written.append(2, 1000), 0);
    CHECK_EQUAL(writer.reserved_end(), writer.end());
    CHECK_EQUAL(facts_of().st_size, static_cast<off_t>(writer.end()));
    const auto opened = open_file(folder, writer.name());
    CHECK(read_record(opened.file, written.directory.entries[1].place()).bytes == record_bytes(2, 1000));
}

}  // namespace

TEST_CASE(records_are_read_as_they_were_written) {
    const RecordFolder folder;
    Written written;
    CHECK_EQUAL(written.create(folder), 0);
    const std::vector<std::size_t> sizes = {0, 1, 7, 8, 9, 100, 1200, 70000};
    for (std::size_t i = 0; i < sizes.size(); ++i) CHECK_EQUAL(written.append(i, sizes[i], 5), 0);
    const auto opened = open_file(folder, written.writer.name());
    CHECK(opened.verdict == RecordFileVerdict::kGood && opened.error == 0);
    CHECK(opened.file.id() == written.writer.id());
    std::uint64_t size = 0;
    CHECK_EQUAL(opened.file.find_size(&size), 0);
    CHECK_EQUAL(size, written.writer.end());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        const RecordPlace place = written.directory.entries[i].place();
        CHECK_EQUAL(place.offset % 8, 0U);
        const ReadRecord read = read_record(opened.file, place);
        CHECK(read.is_there && read.head.key == content_key(i));
        CHECK_EQUAL(read.head.rank, 5U);
        CHECK(read.bytes == record_bytes(i, sizes[i]));
    }
}

TEST_CASE(record_that_is_not_all_there_is_no_record) {
    const RecordFolder folder;
    Written written;
    CHECK_EQUAL(written.create(folder), 0);
    CHECK_EQUAL(written.append(1, 50), 0);
    const std::string name = written.writer.name() + ".dat";
    const auto opened = open_file(folder, written.writer.name());
    const RecordPlace place = written.directory.entries[0].place();
    for (std::uint64_t size = place.offset + sizeof(RecordHead) + 50; size-- > 0;) {
        CHECK(::truncate(folder.path(name).c_str(), static_cast<off_t>(size)) == 0);
        const ReadRecord read = read_record(opened.file, place);
        CHECK(!read.is_there && read.error == 0);
    }
}

TEST_CASE(record_is_read_only_from_where_one_of_its_size_begins) {
    const RecordFolder folder;
    Written written;
    CHECK_EQUAL(written.create(folder), 0);
    for (std::uint64_t i = 0; i < 3; ++i) CHECK_EQUAL(written.append(i, 50), 0);
    const auto opened = open_file(folder, written.writer.name());
    const RecordPlace place = written.directory.entries[1].place();
    CHECK(read_record(opened.file, place).is_there);
    const std::uint64_t largest = 1ULL << 63;
    for (const RecordPlace& wrong : {RecordPlace{place.offset, 49}, RecordPlace{place.offset, 51},
                                     RecordPlace{place.offset + 8, 50}, RecordPlace{written.writer.end(), 50},
                                     RecordPlace{largest - 60, 50}, RecordPlace{largest, 50}, RecordPlace{~0ULL, 50}}) {
        const ReadRecord read = read_record(opened.file, wrong);
        CHECK(!read.is_there && read.error == 0);
    }
    RecordBytes long_buffer(51);
    RecordHead head;
    int error = -1;
    CHECK(!opened.file.read(place, {long_buffer.data(), long_buffer.size()}, &head, &error));
    CHECK_EQUAL(error, 0);
}

TEST_CASE(any_part_of_a_record_is_read_and_nothing_after_it) {
    const RecordFolder folder;
    Written written;
    CHECK_EQUAL(written.create(folder), 0);
    for (std::uint64_t i = 0; i < 3; ++i) CHECK_EQUAL(written.append(i, 20), 0);
    const auto opened = open_file(folder, written.writer.name());
    const RecordPlace place = written.directory.entries[1].place();
    const RecordBytes record = record_bytes(1, 20);
    for (std::size_t begin = 0; begin <= 21; ++begin) {
        for (std::size_t end = begin; end <= 22; ++end) {
            RecordBytes part(end - begin);
            int error = -1;
            const bool is_inside = end <= 20;
            CHECK_EQUAL(opened.file.read_part(place, begin, {part.data(), part.size()}, &error), is_inside);
            CHECK_EQUAL(error, 0);
            if (!is_inside) continue;
            CHECK(std::equal(part.begin(), part.end(), record.begin() + static_cast<std::ptrdiff_t>(begin)));
            if (begin != 0) continue;
            RecordHead head;
            std::fill(part.begin(), part.end(), std::uint8_t{0});
            CHECK(opened.file.read(place, {part.data(), part.size()}, &head, &error));
            CHECK(head.key == content_key(1));
            CHECK(std::equal(part.begin(), part.end(), record.begin()));
        }
    }
    RecordBytes part(1);
    int error = -1;
    CHECK(!opened.file.read_part(place, ~std::uint64_t{0}, {part.data(), part.size()}, &error));
    CHECK(::truncate(folder.path(written.writer.name() + ".dat").c_str(),
                     static_cast<off_t>(place.offset + sizeof(RecordHead) + 10)) == 0);
    CHECK(opened.file.read_part(place, 9, {part.data(), part.size()}, &error));
    CHECK(!opened.file.read_part(place, 10, {part.data(), part.size()}, &error));
    CHECK_EQUAL(error, 0);
    const HookedCalls failing(1, EIO);
    CHECK(!opened.file.read_part(place, 9, {part.data(), part.size()}, &error));
    CHECK_EQUAL(error, EIO);
}

TEST_CASE(file_of_another_form_is_foreign_and_a_short_one_damaged) {
    const RecordFolder folder;
    Written written;
    CHECK_EQUAL(written.create(folder), 0);
    CHECK_EQUAL(written.append(1, 10), 0);
    const std::string name = written.writer.name();
    const std::string good = folder.read(name + ".dat");
    for (std::size_t byte = 0; byte < 24; ++byte) {
        folder.write(name + ".dat", with_value(good, byte, static_cast<char>(good[byte] ^ 1)));
        const auto opened = open_file(folder, name);
        CHECK(opened.verdict == RecordFileVerdict::kForeign && opened.error == 0);
    }
    folder.write(name + ".dat", with_value(good, 8, std::uint32_t{0x04030201}));
    CHECK(open_file(folder, name).verdict == RecordFileVerdict::kForeign);
    for (std::size_t size = 0; size < 40; ++size) {
        folder.write(name + ".dat", good.substr(0, size));
        const auto opened = open_file(folder, name);
        CHECK(opened.verdict == RecordFileVerdict::kFailed);
        CHECK_EQUAL(opened.error, EBADMSG);
    }
    folder.write(name + ".dat", good.substr(0, 40));
    CHECK(open_file(folder, name).verdict == RecordFileVerdict::kGood);
    CHECK_EQUAL(open_file(folder, "index-0000000000000000").error, ENOENT);
    CHECK_EQUAL(open_file(folder, std::string(300, 'x')).error, ENOENT);
}

TEST_CASE(file_that_others_may_have_made_is_not_opened) {
    const RecordFolder folder;
    Written written;
    CHECK_EQUAL(written.create(folder), 0);
    const std::string name = written.writer.name();
    struct stat facts = {};
    CHECK(::stat(folder.path(name + ".dat").c_str(), &facts) == 0);
    CHECK_EQUAL(facts.st_mode & 0777, 0600U);
    check_trust(folder, name + ".dat",
                [&](RecordFileVerdict alone, RecordFileVerdict) { CHECK(open_file(folder, name).verdict == alone); });
}

TEST_CASE(writers_lock_is_held_until_every_process_that_has_its_descriptor_closed_it) {
    const RecordFolder folder;
    Written written;
    CHECK_EQUAL(written.create(folder), 0);
    const auto is_free = [&] { return open_file(folder, written.writer.name()).file.try_lock(); };
    CHECK(!is_free());
    CHECK_EQUAL(in_forked_child([&] {
                    written.writer = RecordFileWriter();  // closes the child's descriptor, and frees nothing
                    return true;
                }),
                0);
    CHECK(!is_free());
    RecordFileWriter moved = std::move(written.writer);
    CHECK(moved.is_open() && !written.writer.is_open());
    const std::string name = moved.name();
    CHECK(!open_file(folder, name).file.try_lock());
    moved = RecordFileWriter();
    const auto first = open_file(folder, name);
    const auto second = open_file(folder, name);
    CHECK(first.file.try_lock());
    CHECK(first.file.try_lock());
    CHECK(!second.file.try_lock());
}

TEST_CASE(space_is_reserved_after_the_end_of_the_file_and_given_back) {
    check_reserved_space(RecordFolder());
    check_reserved_space(RecordFolder("/tmp"));
}

TEST_CASE(reserving_fails_without_space_and_does_nothing_without_support) {
    const RecordFolder folder;
    Written written;
    CHECK_EQUAL(written.create(folder), 0);
    CHECK(written.writer.reserve(std::uint64_t{1} << 61) != 0);
    for (const auto& [system_error, error] : {std::make_pair(ENOSPC, ENOSPC), {EDQUOT, EDQUOT}, {EOPNOTSUPP, 0}}) {
        const HookedCalls failing(1, system_error);
        CHECK_EQUAL(written.writer.reserve(4096), error);
        CHECK_EQUAL(written.writer.reserved_end(), 40U);
    }
    CHECK_EQUAL(written.append(1, 1000), 0);
    CHECK_EQUAL(written.writer.reserved_end(), written.writer.end());
}

TEST_CASE(record_that_had_no_room_leaves_its_place_to_the_next) {
    const RecordFolder folder;
    CHECK_EQUAL(in_forked_child([&] {
                    ::signal(SIGXFSZ, SIG_IGN);
                    rlimit limit = {};
                    Written written;
                    if (written.create(folder) != 0 || written.append(1, 2000) != 0) return false;
                    if (::getrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
                    const rlimit small = {4096, limit.rlim_max};
                    if (::setrlimit(RLIMIT_FSIZE, &small) != 0) return false;
                    const std::uint64_t end = written.writer.end();
                    if (written.append(2, 3000) != EFBIG || written.writer.end() != end) return false;
                    if (written.append(3, 1000) != 0 || ::setrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
                    if (written.append(4, 3000) != 0 || written.publish(folder) != 0) return false;
                    const auto opened = open_file(folder, written.writer.name());
                    const auto read = read_directory(folder, written.writer.name());
                    std::size_t found = 0;
                    for (const DirectoryEntry& entry : read.directory.entries) {
                        const ReadRecord record = read_record(opened.file, entry.place());
                        if (!record.is_there) return false;
                        found += record.bytes == record_bytes(record.head.key.length - 1000, entry.size);
                    }
                    return found == 3;
                }),
                0);
}

TEST_CASE(file_whose_sync_failed_takes_no_more_records) {
    const RecordFolder folder;
    Written written;
    CHECK_EQUAL(written.create(folder), 0);
    CHECK_EQUAL(written.append(1, 100), 0);
    CHECK_EQUAL(written.publish(folder), 0);
    CHECK_EQUAL(written.append(2, 100), 0);
    {
        const HookedCalls failing(1, EIO);
        CHECK_EQUAL(written.writer.sync(), EIO);
    }
    CHECK_EQUAL(written.publish(folder), EIO);
    CHECK_EQUAL(written.append(3, 100), EIO);
    CHECK_EQUAL(read_directory(folder, written.writer.name()).directory.entries.size(), 1U);
}

TEST_CASE(written_bytes_are_pushed_out_once_and_nothing_is_said_of_an_error) {
    const RecordFolder folder;
    Written written;
    CHECK_EQUAL(written.create(folder), 0);
    CHECK_EQUAL(written.append(1, 100), 0);
    const HookedCalls failing(1, EIO);
    written.writer.push_out();
    written.writer.push_out();
    CHECK_EQUAL(written.append(2, 100), 0);
    written.writer.push_out();
    const std::vector<std::string> expected = {"sync_file_range", "pwritev", "sync_file_range"};
    CHECK(failing.names() == expected);
    CHECK_EQUAL(written.writer.sync(), 0);
}

TEST_CASE(file_that_cannot_be_made_leaves_nothing_and_the_writer_as_it_was) {
    const RecordFolder folder;
    Written written;
    CHECK_EQUAL(written.create(folder), 0);
    const std::string name = written.writer.name();
    int n = 0;
    for (bool was_reached = true; was_reached;) {
        RecordFileWriter other;
        {
            const HookedCalls failing(++n, EIO);
            const int error =
                RecordFileWriter::create(folder.descriptor(), RecordKind::kIndex, kDecoderRevision, &other);
            was_reached = failing.was_reached();
            CHECK_EQUAL(error, was_reached ? EIO : 0);
        }
        CHECK(other.is_open() == !was_reached);
        CHECK_EQUAL(folder.names().size(), was_reached ? 1U : 2U);
    }
    CHECK_EQUAL(n, 6);
    for (int i = 1;; ++i) {
        const FailingAllocation failing(i, false);
        const int error =
            RecordFileWriter::create(folder.descriptor(), RecordKind::kIndex, kDecoderRevision, &written.writer);
        if (!FailingAllocation::has_failed()) break;
        CHECK_EQUAL(error, ENOMEM);
        CHECK(written.writer.name() == name);
    }
    CHECK(written.writer.name() != name && written.writer.is_open());
    CHECK_EQUAL(folder.names().size(), 3U);
}

TEST_CASE(name_that_somebody_has_is_not_taken) {
    const RecordFolder folder;
    RecordFileWriter writer;
    const HookedCalls hooked(3, EEXIST);  // openat, after two random numbers
    CHECK_EQUAL(RecordFileWriter::create(folder.descriptor(), RecordKind::kIndex, kDecoderRevision, &writer), 0);
    const std::vector<std::string> expected = {"getrandom", "getrandom", "openat", "getrandom",
                                               "openat",    "flock",     "pwritev"};
    CHECK(hooked.names() == expected);
    CHECK(folder.names() == std::vector<std::string>{writer.name() + ".dat"});
}

TEST_CASE(interrupted_and_partial_transfers_of_records_go_on) {
    const RecordFolder folder;
    for (const int result : {EINTR, HookedCalls::kMovesOneByte}) {
        int n = 0;
        for (bool was_reached = true; was_reached;) {
            const HookedCalls hooked(++n, result);
            Written written;
            CHECK_EQUAL(written.create(folder), 0);
            CHECK_EQUAL(written.writer.reserve(4096), 0);
            CHECK_EQUAL(written.append(1, 77, 2), 0);
            CHECK_EQUAL(written.publish(folder), 0);
            CHECK_EQUAL(written.writer.trim(), 0);
            const auto opened = open_file(folder, written.writer.name());
            CHECK(opened.verdict == RecordFileVerdict::kGood);
            const ReadRecord read = read_record(opened.file, written.directory.entries[0].place());
            CHECK(read.is_there && read.bytes == record_bytes(1, 77));
            CHECK(read_directory(folder, written.writer.name()).verdict == RecordFileVerdict::kGood);
            was_reached = hooked.was_reached();
        }
        CHECK(n > 15);
    }
}

}  // namespace fastload

#include "io/records/record_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "failing_allocation.h"
#include "forked_child.h"
#include "hooked_calls.h"
#include "record_folders.h"

namespace fastload {

using namespace testing;

TEST_CASE(records_are_read_as_they_were_written) {
    const RecordFolder folder;
    Written written(folder);
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
    Written written(folder);
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
    Written written(folder);
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
    Written written(folder);
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
    Written written(folder);
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
    Written written(folder);
    const std::string name = written.writer.name();
    struct stat facts = {};
    CHECK(::stat(folder.path(name + ".dat").c_str(), &facts) == 0);
    CHECK_EQUAL(facts.st_mode & 0777, 0600U);
    check_trust(folder, name + ".dat",
                [&](RecordFileVerdict expected) { CHECK(open_file(folder, name).verdict == expected); });
}

TEST_CASE(writers_lock_is_held_until_every_process_that_has_its_descriptor_closed_it) {
    const RecordFolder folder;
    Written written(folder);
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

TEST_CASE(file_of_a_writer_that_ended_is_written_from_where_its_published_records_end) {
    const RecordFolder folder;
    Written written(folder);
    CHECK_EQUAL(written.append(1, 100), 0);
    CHECK_EQUAL(written.publish(folder), 0);
    const std::uint64_t end = written.writer.end();
    CHECK_EQUAL(written.append(2, 5000), 0);
    written.directory.entries.pop_back();
    const std::string name = written.writer.name();
    const RecordFileId id = written.writer.id();
    RecordFileWriter next;
    CHECK_EQUAL(RecordFileWriter::reopen(folder.descriptor(), name, id, &next), EWOULDBLOCK);
    written.writer = RecordFileWriter();
    CHECK_EQUAL(RecordFileWriter::reopen(folder.descriptor(), name, id, &next), 0);
    CHECK(!open_file(folder, name).file.try_lock());
    CHECK_EQUAL(next.go_on_from(end + 10'000), EBADMSG);
    CHECK_EQUAL(next.go_on_from(end), 0);
    std::uint64_t size = 0;
    CHECK_EQUAL(open_file(folder, name).file.find_size(&size), 0);
    CHECK_EQUAL(size, end);
    written.writer = std::move(next);
    CHECK_EQUAL(written.append(3, 200), 0);
    CHECK_EQUAL(written.publish(folder), 0);
    const auto opened = open_file(folder, name);
    CHECK_EQUAL(written.directory.entries.size(), 2U);
    for (const DirectoryEntry& entry : written.directory.entries) {
        CHECK(read_record(opened.file, entry.place()).bytes == record_bytes(entry.size == 100 ? 1 : 3, entry.size));
    }
}

TEST_CASE(file_that_others_may_have_made_is_not_written) {
    const RecordFolder folder;
    Written written(folder);
    const std::string name = written.writer.name();
    written.writer = RecordFileWriter();
    CHECK(::chmod(folder.path(name + ".dat").c_str(), 0666) == 0);
    RecordFileWriter next;
    CHECK_EQUAL(RecordFileWriter::reopen(folder.descriptor(), name, {}, &next), EPERM);
    CHECK_EQUAL(RecordFileWriter::reopen(folder.descriptor(), "index-0000000000000000", {}, &next), ENOENT);
    CHECK(!next.is_open());
}

TEST_CASE(file_that_cannot_be_made_leaves_nothing_and_the_writer_as_it_was) {
    const RecordFolder folder;
    Written written(folder);
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
            Written written(folder);
            CHECK_EQUAL(written.append(1, 77, 2), 0);
            CHECK_EQUAL(written.publish(folder), 0);
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

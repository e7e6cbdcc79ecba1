#include "io/records/record_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "failing_allocation.h"
#include "hooked_calls.h"
#include "record_folders.h"

namespace fastload {
namespace {

using namespace testing;

using Names = std::vector<std::string>;

FolderFiles files_of(const RecordFolder& folder) {
    FolderFiles files;
    CHECK_EQUAL(list_record_files(folder.descriptor(), RecordKind::kIndex, &files), 0);
    return files;
}

int remove_all_remains(const RecordFolder& folder) { return remove_remains(folder.descriptor(), RecordKind::kIndex); }

Written published_file(const RecordFolder& folder) {
    Written written(folder);
    CHECK_EQUAL(written.append(1, 100), 0);
    CHECK_EQUAL(written.publish(folder), 0);
    return written;
}

}  // namespace

TEST_CASE(record_files_are_listed_as_complete_or_as_remains) {
    const RecordFolder folder;
    CHECK(files_of(folder).complete.empty() && files_of(folder).remains.empty());
    folder.write("lock", "");
    folder.write("key", "secret");
    for (const char* name :
         {"index-f123456789abcdef.dat", "index-f123456789abcdef.dir", "index-f123456789abcdef.tmp",
          "index-0123456789abcdef.dir", "index-0123456789abcdef.dat", "index-0000000000000001.dat",
          "index-0000000000000002.dir", "index-0000000000000003.tmp", "index-0000000000000004.tmp",
          "index-0000000000000004.dir", "index-0000000000000005.tmp", "index-0000000000000005.dat"}) {
        folder.write(name, "x");
    }
    for (const char* other : {"index-0123456789abcdeF.dat", "index-0123456789abcde.dat", "index-0123456789abcdef.dat2",
                              "pixels-0123456789abcdef.dat", "index_0123456789abcdef.dat", "index-0123456789abcdeg.dat",
                              "index-0123456789abcdef.txt", "Index-0123456789abcdef.dat", ".dat", "index"}) {
        folder.write(other, "x");
    }
    const FolderFiles files = files_of(folder);
    const Names complete = {"index-0123456789abcdef", "index-f123456789abcdef"};
    CHECK(files.complete == complete);
    const Names remains = {"index-0000000000000001.dat", "index-0000000000000002.dir", "index-0000000000000003.tmp",
                           "index-0000000000000004.dir", "index-0000000000000004.tmp", "index-0000000000000005.dat",
                           "index-0000000000000005.tmp", "index-f123456789abcdef.tmp"};
    CHECK(files.remains == remains);
}

TEST_CASE(used_space_counts_all_files) {
    const RecordFolder folder;
    const std::uint64_t empty = files_of(folder).used_bytes;
    CHECK_EQUAL(empty, 0U);
    Written written = published_file(folder);
    folder.write("other", std::string(10000, 'x'));
    CHECK(::symlink("/nowhere", folder.path("link").c_str()) == 0);
    folder.write("coefficients-0123456789abcdef.dat", std::string(20000, 'x'));
    std::uint64_t expected = 0;
    std::uint64_t of_indexes = 0;
    for (const std::string& name : folder.names()) {
        struct stat facts = {};
        CHECK(::lstat(folder.path(name).c_str(), &facts) == 0);
        const std::uint64_t bytes = static_cast<std::uint64_t>(std::max(facts.st_blocks * 512, facts.st_size));
        expected += bytes;
        if (name.compare(0, 6, "index-") == 0) of_indexes += bytes;
    }
    CHECK_EQUAL(files_of(folder).used_bytes, expected);
    CHECK_EQUAL(files_of(folder).kind_bytes, of_indexes);
    FolderFiles coefficients;
    CHECK_EQUAL(list_record_files(folder.descriptor(), RecordKind::kCoefficients, &coefficients), 0);
    CHECK_EQUAL(coefficients.used_bytes, expected);
    CHECK(coefficients.kind_bytes >= 20000 && coefficients.kind_bytes < expected - of_indexes);
    CHECK(coefficients.complete.empty());
    CHECK(coefficients.remains == Names{"coefficients-0123456789abcdef.dat"});
    CHECK(expected >= 30000);
}

TEST_CASE(listing_that_fails_says_so_and_leaves_the_result_alone) {
    const RecordFolder folder;
    const Written written = published_file(folder);
    folder.write("index-0000000000000001.tmp", "");
    const FolderFiles expected = files_of(folder);
    int n = 0;
    for (bool was_reached = true; was_reached;) {
        FolderFiles files;
        files.complete = {"before"};
        const HookedCalls failing(++n, EIO);
        const int error = list_record_files(folder.descriptor(), RecordKind::kIndex, &files);
        was_reached = failing.was_reached();
        CHECK_EQUAL(error, was_reached ? EIO : 0);
        CHECK(files.complete == (was_reached ? Names{"before"} : expected.complete));
    }
    CHECK(n > 10);  // three files with their metadata, and the end of the listing
    FolderFiles files;
    for (int allocation = 1;; ++allocation) {
        const FailingAllocation failing(allocation, false);
        try {
            CHECK_EQUAL(list_record_files(folder.descriptor(), RecordKind::kIndex, &files), 0);
        } catch (const std::bad_alloc&) {
            CHECK(files.complete.empty());
        }
        if (!FailingAllocation::has_failed()) break;
    }
    CHECK(files.complete == expected.complete && files.remains == expected.remains);
}

TEST_CASE(file_that_goes_while_it_is_listed_is_no_error) {
    int n = 0;
    for (bool was_reached = true; was_reached;) {
        const RecordFolder folder;
        folder.write("index-0000000000000001.dat", "x");
        FolderFiles files;
        const HookedCalls hooked(++n, [&] { return ::unlink(folder.path("index-0000000000000001.dat").c_str()); });
        CHECK_EQUAL(list_record_files(folder.descriptor(), RecordKind::kIndex, &files), 0);
        was_reached = hooked.was_reached();
        CHECK(files.complete.empty() && files.remains.size() <= 1);
    }
    CHECK(n > 4);
}

TEST_CASE(folder_that_was_removed_takes_no_file) {
    std::optional<RecordFolder> folder(std::in_place);
    const int descriptor = ::dup(folder->descriptor());
    folder.reset();
    FolderLock lock;
    CHECK_EQUAL(FolderLock::take(descriptor, &lock), ENOENT);
    RecordFileWriter writer;
    CHECK_EQUAL(RecordFileWriter::create(descriptor, RecordKind::kIndex, 1, &writer), ENOENT);
    ::close(descriptor);
}

TEST_CASE(remains_are_removed_only_if_no_writer_lives) {
    const RecordFolder folder;
    Written living(folder);
    Written published = published_file(folder);
    folder.write(living.writer.name() + ".tmp", "x");
    folder.write(published.writer.name() + ".tmp", "x");
    folder.write("index-0000000000000001.dat", "");
    folder.write("index-0000000000000002.dir", "x");
    folder.write("index-0000000000000003.tmp", "x");
    folder.write("index-0000000000000003.txt", "x");
    CHECK_EQUAL(remove_all_remains(folder), 0);
    CHECK_EQUAL(folder.names().size(), 6U);
    published.writer = RecordFileWriter();
    CHECK_EQUAL(remove_all_remains(folder), 0);
    CHECK_EQUAL(folder.names().size(), 5U);
    CHECK_EQUAL(files_of(folder).complete.size(), 1U);
    living.writer = RecordFileWriter();
    CHECK_EQUAL(remove_all_remains(folder), 0);
    CHECK_EQUAL(folder.names().size(), 3U);
    CHECK(files_of(folder).remains.empty());
}

TEST_CASE(remains_of_another_format_and_non_files_stay) {
    const RecordFolder folder;
    Written written(folder);
    const std::string head = folder.read(written.writer.name() + ".dat");
    folder.write("index-0000000000000001.dat", with_value(head, 12, std::uint32_t{2}));
    folder.write("index-0000000000000002.dat", with_value(head, 0, 'g'));
    folder.write("index-0000000000000003.dat", with_value(head, 20, std::uint32_t{99}));
    folder.write("index-0000000000000004.dat", head.substr(0, 39));
    CHECK(::mkfifo(folder.path("index-0000000000000005.dat").c_str(), 0600) == 0);
    CHECK(::symlink("aside", folder.path("index-0000000000000006.dat").c_str()) == 0);
    CHECK(::mkdir(folder.path("index-0000000000000007.dir").c_str(), 0700) == 0);
    CHECK(::mkfifo(folder.path("index-0000000000000008.tmp").c_str(), 0600) == 0);
    CHECK_EQUAL(remove_all_remains(folder), 0);
    const Names stay = {"index-0000000000000001.dat", "index-0000000000000002.dat", "index-0000000000000005.dat",
                        "index-0000000000000006.dat", "index-0000000000000007.dir", "index-0000000000000008.tmp"};
    Names found = folder.names();
    found.erase(std::find(found.begin(), found.end(), written.writer.name() + ".dat"));
    CHECK(found == stay);
}

// The records of a file stay, at whatever moment its writer publishes and releases it.
TEST_CASE(file_that_is_published_while_remains_are_removed_stays) {
    int n = 0;
    int num_removed = 0;
    for (bool was_reached = true; was_reached;) {
        const RecordFolder folder;
        Written written(folder);
        CHECK_EQUAL(written.append(1, 100), 0);
        const std::string name = written.writer.name();
        folder.write(name + ".tmp", "old");
        const auto publish_and_close = [&] {
            CHECK_EQUAL(written.publish(folder), 0);
            written.writer = RecordFileWriter();
            return HookedCalls::kGoesOn;
        };
        {
            const HookedCalls hooked(++n, publish_and_close);
            CHECK_EQUAL(remove_all_remains(folder), 0);
            was_reached = hooked.was_reached();
        }
        if (!was_reached) publish_and_close();
        CHECK(read_directory(folder, name).verdict == RecordFileVerdict::kGood);
        CHECK(open_file(folder, name).verdict == RecordFileVerdict::kGood);
        num_removed += folder.names().size() == 2;
    }
    CHECK(n > 10 && num_removed > 5);
}

TEST_CASE(remains_that_cannot_be_removed_do_not_stop_the_others) {
    for (int n = 1;; ++n) {
        const RecordFolder folder;
        folder.write("index-0000000000000001.dat", "");
        folder.write("index-0000000000000002.dir", "");
        folder.write("index-0000000000000003.tmp", "");
        bool was_reached = false;
        std::string failed;
        {
            const HookedCalls failing(n, EACCES);
            const int error = remove_all_remains(folder);
            was_reached = failing.was_reached();
            if (was_reached) failed = failing.names()[static_cast<std::size_t>(n - 1)];
            if (failed == "unlinkat") CHECK_EQUAL(error, EACCES);
            if (failed == "unlinkat") CHECK_EQUAL(folder.names().size(), 1U);
        }
        CHECK_EQUAL(remove_all_remains(folder), 0);
        CHECK(folder.names().empty());
        if (!was_reached) break;
    }
}

TEST_CASE(folder_time_changes_with_its_entries) {
    const RecordFolder folder;
    const auto time = [&] {
        std::int64_t mtime_ns = 0;
        CHECK_EQUAL(find_folder_time(folder.descriptor(), &mtime_ns), 0);
        return mtime_ns;
    };
    const auto set_time = [&](std::int64_t seconds) {
        const timespec times[2] = {{seconds, 5}, {seconds, 5}};
        CHECK(::futimens(folder.descriptor(), times) == 0);
    };
    set_time(1000);
    CHECK_EQUAL(time(), 1000 * std::int64_t{1'000'000'000} + 5);
    folder.write("lock", "");
    CHECK(time() != 1000 * std::int64_t{1'000'000'000} + 5);
    set_time(1000);
    Written written = published_file(folder);
    CHECK(time() != 1000 * std::int64_t{1'000'000'000} + 5);
    set_time(1000);
    CHECK_EQUAL(written.publish(folder), 0);
    CHECK(time() != 1000 * std::int64_t{1'000'000'000} + 5);
    const HookedCalls failing(1, EIO);
    std::int64_t mtime_ns = 7;
    CHECK_EQUAL(find_folder_time(folder.descriptor(), &mtime_ns), EIO);
    CHECK_EQUAL(mtime_ns, 7);
}

}  // namespace fastload

// Writers of records that end or fail at each system call in turn, and several writers at once.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "forked_child.h"
#include "hooked_calls.h"
#include "record_folders.h"

namespace fastload {
namespace {

using testing::HookedCalls;
using testing::in_forked_child;
using testing::open_file;
using testing::OpenedFile;
using testing::read_directory;
using testing::read_record;
using testing::ReadDirectory;
using testing::ReadRecord;
using testing::record_bytes;
using testing::RecordFolder;
using testing::Written;

constexpr std::uint64_t kReserved = 1 << 16;

int create_locked(const RecordFolder& folder, Written* written) {
    FolderLock lock;
    if (const int error = FolderLock::take(folder.descriptor(), "lock", true, &lock); error != 0) return error;
    if (const int error = remove_remains(folder.descriptor(), RecordKind::kIndex); error != 0) return error;
    if (const int error = written->create(folder); error != 0) return error;
    return written->writer.reserve(kReserved);
}

// Writes a file of five records, numbered from `number` on, and publishes it after three and after five.
int write_five(const RecordFolder& folder, std::uint64_t number) {
    Written written;
    if (const int error = create_locked(folder, &written); error != 0) return error;
    for (std::uint64_t i = 0; i < 5; ++i) {
        if (const int error = written.append(number + i, 300 + i); error != 0) return error;
        written.writer.push_out();
        if (i < 4 && i != 2) continue;
        if (const int error = written.publish(folder); error != 0) return error;
    }
    return written.writer.trim();
}

// Counts the records that can be found, and compares each with the bytes that were written.
std::size_t count_records(const RecordFolder& folder) {
    FolderFiles files;
    CHECK_EQUAL(list_record_files(folder.descriptor(), RecordKind::kIndex, &files), 0);
    std::size_t count = 0;
    for (const std::string& name : files.complete) {
        const OpenedFile opened = open_file(folder, name);
        const ReadDirectory read = read_directory(folder, name);
        CHECK(opened.verdict == RecordFileVerdict::kGood && read.verdict == RecordFileVerdict::kGood);
        CHECK(opened.file.id() == read.directory.id);
        for (const DirectoryEntry& entry : read.directory.entries) {
            const ReadRecord record = read_record(opened.file, entry.place());
            CHECK(record.is_there && record.head.key.hash == entry.hash);
            CHECK(record.bytes == record_bytes(record.head.key.length - 1000, entry.size));
            ++count;
        }
    }
    return count;
}

// Cleans up as the next process does.
void clean_up(const RecordFolder& folder) {
    FolderLock lock;
    CHECK_EQUAL(FolderLock::take(folder.descriptor(), "lock", false, &lock), 0);
    CHECK_EQUAL(remove_remains(folder.descriptor(), RecordKind::kIndex), 0);
    FolderFiles files;
    CHECK_EQUAL(list_record_files(folder.descriptor(), RecordKind::kIndex, &files), 0);
    CHECK(files.remains.empty());
    for (const std::string& name : files.complete) {
        const std::uint64_t covered = read_directory(folder, name).directory.covered_bytes;
        CHECK_EQUAL(trim_record_file(folder.descriptor(), name, covered), 0);
        struct stat facts = {};
        CHECK(::stat(folder.path(name + ".dat").c_str(), &facts) == 0);
        CHECK(static_cast<std::uint64_t>(facts.st_size) == covered && facts.st_blocks * 512 < 1 << 15);
    }
    CHECK_EQUAL(folder.names().size(), 2 * files.complete.size() + 1);
}

}  // namespace

TEST_CASE(writer_that_is_killed_at_any_call_leaves_whole_records_and_removable_remains) {
    std::size_t most = 0;
    std::vector<bool> counts(6);
    for (int n = 1;; ++n) {
        const RecordFolder folder;
        bool was_killed = false;
        const pid_t child = fork();
        if (child == 0) {
            alarm(20);
            const HookedCalls hooked(n, [] { return ::kill(::getpid(), SIGKILL); });
            _exit(write_five(folder, 1) == 0 ? 0 : 1);
        }
        int status = -1;
        CHECK(waitpid(child, &status, 0) == child);
        was_killed = WIFSIGNALED(status);
        CHECK(was_killed || status == 0);
        const std::size_t count = count_records(folder);
        CHECK(count >= most);
        most = count;
        counts[count] = true;
        clean_up(folder);
        CHECK_EQUAL(count_records(folder), count);
        CHECK_EQUAL(write_five(folder, 10), 0);
        CHECK_EQUAL(count_records(folder), count + 5);
        if (!was_killed) break;
    }
    const std::vector<bool> expected = {true, false, false, true, false, true};
    CHECK(counts == expected);
}

TEST_CASE(call_that_fails_leaves_whole_records_and_the_next_writer_succeeds) {
    for (const int error : {EIO, ENOSPC, EDQUOT, EROFS, EMFILE}) {
        int n = 0;
        for (bool was_reached = true; was_reached;) {
            const RecordFolder folder;
            std::string name;
            int result = 0;
            {
                const HookedCalls failing(++n, error);
                result = write_five(folder, 1);
                was_reached = failing.was_reached();
                if (was_reached) name = failing.names()[static_cast<std::size_t>(n - 1)];
            }
            // These calls may cost another look at a file, or some time; and closing unlocks, too.
            const bool may_pass = name == "sync_file_range" || name == "fstatat" || name == "fstat" || name == "flock";
            CHECK(result == error || (result == 0 && (may_pass || !was_reached)));
            const std::size_t count = count_records(folder);
            CHECK(count == 0 || count == 3 || count == 5);
            CHECK(result != 0 || count == 5);
            clean_up(folder);
            CHECK_EQUAL(write_five(folder, 10), 0);
            CHECK_EQUAL(count_records(folder), count + 5);
        }
        CHECK(n > 30);
    }
}

TEST_CASE(writers_and_readers_of_one_folder_see_whole_records_only) {
    const RecordFolder folder;
    constexpr std::uint64_t kNumWriters = 3;
    constexpr std::uint64_t kNumFiles = 6;
    std::vector<std::thread> writers;
    std::vector<int> errors(kNumWriters);
    for (std::uint64_t writer = 0; writer < kNumWriters; ++writer) {
        writers.emplace_back([&, writer] {
            for (std::uint64_t file = 0; file < kNumFiles && errors[writer] == 0; ++file) {
                errors[writer] = write_five(folder, 100 * writer + 10 * file);
            }
        });
    }
    std::size_t most = 0;
    for (int i = 0; i < 30; ++i) {
        const std::size_t count = count_records(folder);
        CHECK(count >= most);
        most = count;
    }
    for (std::thread& writer : writers) writer.join();
    CHECK(errors == std::vector<int>(kNumWriters));
    CHECK_EQUAL(count_records(folder), 5 * kNumWriters * kNumFiles);
    clean_up(folder);
}

TEST_CASE(file_of_a_forked_child_is_read_by_its_parent) {
    const RecordFolder folder;
    CHECK_EQUAL(in_forked_child([&] { return write_five(folder, 1) == 0; }), 0);
    CHECK_EQUAL(write_five(folder, 10), 0);
    CHECK_EQUAL(count_records(folder), 10U);
    clean_up(folder);
}

}  // namespace fastload

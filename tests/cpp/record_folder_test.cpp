#include "io/records/record_folder.h"

#include <cerrno>
#include <string>
#include <vector>

#include "check.h"
#include "forked_child.h"
#include "record_folders.h"

namespace fastload {
namespace {

using testing::in_forked_child;
using testing::RecordFolder;
using testing::Written;

}  // namespace

TEST_CASE(record_files_are_listed_as_complete_or_as_remains) {
    const RecordFolder folder;
    folder.write("lock", "");
    folder.write("key", "secret");
    folder.write("index-0123456789abcdef.dat", "x");
    folder.write("index-0123456789abcdef.dir", "x");
    folder.write("index-0123456789abcdef.tmp", "x");
    folder.write("index-0000000000000001.dat", "x");
    folder.write("index-0000000000000002.dir", "x");
    folder.write("index-0000000000000003.tmp", "x");
    for (const char* other : {"index-0123456789abcdeF.dat", "index-0123456789abcde.dat", "index-0123456789abcdef.dat2",
                              "pixels-0123456789abcdef.dat", "index_0123456789abcdef.dat"}) {
        folder.write(other, "x");
    }
    FolderFiles files;
    CHECK_EQUAL(list_record_files(folder.descriptor(), RecordKind::kIndex, &files), 0);
    CHECK(files.complete == std::vector<std::string>{"index-0123456789abcdef"});
    const std::vector<std::string> remains = {"index-0000000000000001.dat", "index-0000000000000002.dir",
                                              "index-0000000000000003.tmp", "index-0123456789abcdef.tmp"};
    CHECK(files.remains == remains);
}

TEST_CASE(remains_go_only_where_no_writer_lives) {
    const RecordFolder folder;
    Written living;
    Written published;
    CHECK_EQUAL(living.create(folder), 0);
    CHECK_EQUAL(published.create(folder), 0);
    CHECK_EQUAL(published.append(1, 100), 0);
    CHECK_EQUAL(published.publish(folder), 0);
    folder.write(living.writer.name() + ".tmp", "x");
    folder.write(published.writer.name() + ".tmp", "x");
    folder.write("index-0000000000000001.dat", "");
    folder.write("index-0000000000000002.dir", "x");
    folder.write("index-0000000000000003.tmp", "x");
    CHECK_EQUAL(remove_remains(folder.descriptor(), RecordKind::kIndex), 0);
    CHECK_EQUAL(folder.names().size(), 5U);
    published.writer = RecordFileWriter();
    CHECK_EQUAL(remove_remains(folder.descriptor(), RecordKind::kIndex), 0);
    CHECK_EQUAL(folder.names().size(), 4U);
    CHECK(!folder.has(published.writer.name() + ".tmp"));
    living.writer = RecordFileWriter();
    CHECK_EQUAL(remove_remains(folder.descriptor(), RecordKind::kIndex), 0);
    CHECK_EQUAL(folder.names().size(), 2U);
}

TEST_CASE(folder_lock_keeps_others_out_until_its_end) {
    const RecordFolder folder;
    const auto try_lock = [&folder] {
        FolderLock lock;
        return FolderLock::take(folder.descriptor(), "lock", false, &lock);
    };
    {
        FolderLock lock;
        CHECK_EQUAL(FolderLock::take(folder.descriptor(), "lock", true, &lock), 0);
        CHECK_EQUAL(try_lock(), EWOULDBLOCK);
        CHECK_EQUAL(in_forked_child([&] { return try_lock() == EWOULDBLOCK; }), 0);
    }
    CHECK_EQUAL(try_lock(), 0);
}

}  // namespace fastload

#include "io/records/record_file.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>
#include <vector>

#include "check.h"
#include "forked_child.h"
#include "record_folders.h"

namespace fastload {
namespace {

using testing::content_key;
using testing::in_forked_child;
using testing::kDecoderRevision;
using testing::open_file;
using testing::read_directory;
using testing::read_record;
using testing::ReadRecord;
using testing::record_bytes;
using testing::RecordBytes;
using testing::RecordFolder;
using testing::span_of;
using testing::Written;

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

}  // namespace fastload

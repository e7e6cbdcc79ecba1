#include "io/records/record_directory.h"

#include <cerrno>
#include <string>
#include <vector>

#include "check.h"
#include "record_folders.h"

namespace fastload {
namespace {

using testing::are_same;
using testing::read_directory;
using testing::RecordFolder;
using testing::Written;

}  // namespace

TEST_CASE(record_directory_is_read_as_it_was_written) {
    const RecordFolder folder;
    Written written;
    CHECK_EQUAL(written.create(folder), 0);
    for (const std::uint64_t count : {0U, 1U, 50U}) {
        for (std::uint64_t i = 0; i < count; ++i) CHECK_EQUAL(written.append(i, 10 * i), 0);
        CHECK_EQUAL(written.publish(folder), 0);
        const auto read = read_directory(folder, written.writer.name());
        CHECK(read.verdict == RecordFileVerdict::kGood && read.error == 0);
        CHECK(are_same(read.directory, written.directory));
        std::uint64_t generation = 0;
        int error = -1;
        CHECK(read_record_generation(folder.descriptor(), written.writer.name(), &generation, &error) ==
              RecordFileVerdict::kGood);
        CHECK_EQUAL(generation, written.directory.generation);
        CHECK_EQUAL(error, 0);
    }
    const std::vector<std::string> names = {written.writer.name() + ".dat", written.writer.name() + ".dir"};
    CHECK(folder.names() == names);
}

}  // namespace fastload

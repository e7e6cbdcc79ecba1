#include <sys/resource.h>
#include <unistd.h>

#include "check.h"
#include "io/file_reader.h"
#include "io/sample_index.h"
#include "io/working_directory.h"
#include "temporary_folder.h"

namespace fastload {
using namespace testing;

TEST_CASE(reader_gives_the_whole_file_and_reuses_its_memory) {
    TemporaryFolder folder;
    const std::string large = folder.write("large", std::string(100000, 'x'));
    const std::string small = folder.write("small", "hello");
    FileReader reader;
    ByteSpan contents;
    CHECK(reader.read(bytes_of(large), 1 << 20, &contents).is_ok());
    CHECK_EQUAL(contents.size(), 100000U);
    const std::size_t scratch = reader.scratch_bytes();
    CHECK(reader.read(bytes_of(small), 1 << 20, &contents).is_ok());
    CHECK(std::memcmp(contents.data(), "hello", 5) == 0 && contents.size() == 5);
    CHECK_EQUAL(reader.scratch_bytes(), scratch);
}

TEST_CASE(reader_accepts_an_empty_file) {
    TemporaryFolder folder;
    FileReader reader;
    ByteSpan contents;
    CHECK(reader.read(bytes_of(folder.write("empty", "")), 100, &contents).is_ok());
    CHECK(contents.is_empty());
}

TEST_CASE(reader_says_why_there_is_no_directory_for_relative_names_only) {
    TemporaryFolder folder;
    const std::string absolute = folder.write("file", "here");
    rlimit limit = {};
    CHECK(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
    const rlimit none = {0, limit.rlim_max};
    CHECK(::setrlimit(RLIMIT_NOFILE, &none) == 0);
    const WorkingDirectory directory;
    CHECK(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK_EQUAL(directory.system_errno(), EMFILE);
    FileReader reader;
    ByteSpan contents;
    const Status status = reader.read(bytes_of("file"), 100, &contents, &directory);
    CHECK(status.code == StatusCode::kOpenFailed);
    CHECK_EQUAL(status.system_errno, EMFILE);
    CHECK(reader.read(bytes_of(absolute), 100, &contents, &directory).is_ok());
}

TEST_CASE(reader_refuses_a_file_over_the_limit_before_reading) {
    TemporaryFolder folder;
    const std::string sparse = folder.write("sparse", "");
    CHECK(::truncate(sparse.c_str(), off_t{5} << 30) == 0);
    FileReader reader;
    ByteSpan contents;
    CHECK(reader.read(bytes_of(sparse), 1 << 20, &contents).code == StatusCode::kFileTooLarge);
    CHECK_EQUAL(reader.scratch_bytes(), 0U);
}

TEST_CASE(reader_gives_the_beginning_of_a_large_file_that_is_rejected) {
    TemporaryFolder folder;
    constexpr std::size_t kUnjudged = FileReader::kUnjudgedBytes;
    std::string contents_of_file(kUnjudged, 0);
    const std::string unjudged = folder.write("unjudged", contents_of_file);
    contents_of_file.push_back('x');
    const std::string zeros = folder.write("zeros", contents_of_file);
    contents_of_file[FileReader::kHeadBytes - 1] = 'x';
    const std::string others = folder.write("others", contents_of_file);
    FileReader reader;
    const HeadJudge judge = [](ByteSpan head) { return head[0] == 0 && head[head.size() - 1] == 0; };
    ByteSpan contents;
    CHECK(reader.read(bytes_of(zeros), 1 << 20, &contents, nullptr, judge).is_ok());
    CHECK_EQUAL(contents.size(), FileReader::kHeadBytes);
    CHECK(reader.scratch_bytes() < kUnjudged);
    CHECK(reader.read(bytes_of(unjudged), 1 << 20, &contents, nullptr, judge).is_ok());
    CHECK_EQUAL(contents.size(), kUnjudged);
    CHECK(reader.read(bytes_of(others), 1 << 20, &contents, nullptr, judge).is_ok());
    CHECK(contents.size() == kUnjudged + 1 && contents[kUnjudged] == 'x');
    CHECK(reader.read(bytes_of(zeros), 1 << 20, &contents).is_ok());
    CHECK_EQUAL(contents.size(), kUnjudged + 1);
}

TEST_CASE(reader_refuses_overlong_paths_and_paths_with_a_nul) {
    FileReader reader;
    ByteSpan contents;
    const std::string overlong(5000, 'a');
    CHECK_EQUAL(reader.read(bytes_of(overlong), 100, &contents).system_errno, ENAMETOOLONG);
    const std::string with_nul("/tmp\0/x", 7);
    CHECK_EQUAL(reader.read(bytes_of(with_nul), 100, &contents).system_errno, EINVAL);
    CHECK_EQUAL(reader.read(ByteSpan(), 100, &contents).system_errno, ENOENT);
}

TEST_CASE(arena_index_finds_paths_and_rejects_bad_offsets) {
    const std::string arena = "abcde";
    const std::int64_t offsets[] = {0, 2, 2, 5};
    const ArenaIndex index(bytes_of(arena), {offsets, 4}, nullptr);
    CHECK_EQUAL(index.num_samples(), 3);
    CHECK_EQUAL(index.path(0, nullptr).size(), 2U);
    CHECK(index.path(1, nullptr).is_empty());
    CHECK(index.path(2, nullptr)[0] == 'c');
    const std::int64_t falling[] = {0, 3, 2};
    const std::int64_t beyond[] = {0, 6};
    const std::int64_t late[] = {1, 2};
    CHECK(ArenaIndex::is_valid(bytes_of(arena), {offsets, 4}));
    CHECK(!ArenaIndex::is_valid(bytes_of(arena), {falling, 3}));
    CHECK(!ArenaIndex::is_valid(bytes_of(arena), {beyond, 2}));
    CHECK(!ArenaIndex::is_valid(bytes_of(arena), {late, 2}));
    CHECK(!ArenaIndex::is_valid(bytes_of(arena), {}));
}

}  // namespace fastload

#include "engine/sample/sample_file.h"

#include "check.h"
#include "temporary_folder.h"

namespace fastload {

using namespace testing;

TEST_CASE(sample_files_are_used_again_with_their_memory_and_without_their_contents) {
    TemporaryFolder folder;
    SampleFiles files(1);
    std::unique_ptr<SampleFile> file = files.take();
    file->read(bytes_of(folder.write("file", std::string(1000, 'x'))), 1 << 20);
    CHECK(file->is_read() && file->status().is_ok());
    CHECK_EQUAL(file->contents().size(), 1000U);
    const SampleFile* const first = file.get();
    files.give_back(std::move(file));
    CHECK(files.spare_bytes() >= 1000);
    file = files.take();
    CHECK(file.get() == first);
    CHECK(!file->is_read() && file->contents().is_empty());
    CHECK_EQUAL(files.spare_bytes(), 0U);
}

TEST_CASE(sample_files_that_wait_are_counted_until_they_are_forgotten_or_destroyed) {
    TemporaryFolder folder;
    const std::string path = folder.write("file", std::string(1000, 'x'));
    SampleFiles files(2);
    std::vector<std::unique_ptr<SampleFile>> waiting;
    for (int i = 0; i < 3; ++i) {
        waiting.push_back(files.take());
        waiting.back()->read(bytes_of(path), 1 << 20);
    }
    CHECK(waiting[0]->may_wait(1500));
    CHECK(waiting[0]->may_wait(0));  // it does already
    CHECK(waiting[1]->may_wait(1500));
    CHECK(!waiting[2]->may_wait(1500));
    waiting[0]->forget();
    CHECK(waiting[2]->may_wait(1500));
    files.give_back(std::move(waiting[1]));
    waiting[2].reset();
    CHECK(!waiting[0]->is_read());
    waiting[0]->read(bytes_of(path), 1 << 20);
    CHECK(waiting[0]->may_wait(1));
}

TEST_CASE(sample_files_keep_little_memory_beside_the_threads) {
    TemporaryFolder folder;
    const std::string path = folder.write("file", std::string(std::size_t{3} << 20, 'x'));
    SampleFiles files(1);
    std::vector<std::unique_ptr<SampleFile>> taken;
    for (int i = 0; i < 12; ++i) {
        taken.push_back(files.take());
        taken.back()->read(bytes_of(path), std::uint64_t{1} << 30);
    }
    for (std::unique_ptr<SampleFile>& file : taken) files.give_back(std::move(file));
    CHECK(files.spare_bytes() >= (std::size_t{24} << 20));
    CHECK(files.spare_bytes() <= (std::size_t{32} << 20));
}

TEST_CASE(sample_files_keep_no_memory_of_large_ones) {
    TemporaryFolder folder;
    const std::string path = folder.write("file", std::string(std::size_t{12} << 20, 'x'));
    SampleFiles files(1);
    std::unique_ptr<SampleFile> file = files.take();
    file->read(bytes_of(path), std::uint64_t{1} << 30);
    CHECK(file->held_bytes() >= (std::size_t{12} << 20));
    files.give_back(std::move(file));
    CHECK_EQUAL(files.spare_bytes(), 0U);
}

}  // namespace fastload

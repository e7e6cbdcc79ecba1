#include "engine/cache/file_record_cache.h"

#include "check.h"
#include "engine/fork_guard.h"
#include "forked_child.h"
#include "io/file_facts.h"
#include "io/working_directory.h"
#include "large_records.h"
#include "temporary_folder.h"

namespace fastload {
namespace {

using namespace testing;

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr FileFacts kFacts = {1000, 7 * kSecond + 1, 8 * kSecond + 1, 5};

std::unique_ptr<FileRecordCache> make_cache(const RecordFolder& folder, Validation validation,
                                            std::uint32_t check_interval = 0) {
    return std::make_unique<FileRecordCache>(open_built(folder), validation, check_interval);
}

}  // namespace

TEST_CASE(of_each_interval_of_hits_one_is_checked_and_each_file_of_an_order_that_stays_in_time) {
    constexpr std::uint32_t kInterval = 8;
    constexpr int kNumFiles = 16;
    constexpr int kEpochs = 400;
    const RecordFolder folder;
    const auto cache = make_cache(folder, Validation::kStat, kInterval);
    int checks[kNumFiles] = {};
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
        for (int begin = 0; begin < kNumFiles; begin += kInterval) {
            int in_interval = 0;
            for (int file = begin; file < begin + static_cast<int>(kInterval); ++file) {
                const bool is_checked = cache->is_next_checked();
                checks[file] += is_checked ? 1 : 0;
                in_interval += is_checked ? 1 : 0;
            }
            CHECK_EQUAL(in_interval, 1);
        }
    }
    for (const int count : checks) CHECK(count > 0 && count < 150);  // 50 and 15 standard deviations
}

TEST_CASE(without_an_interval_no_hit_is_checked_and_with_one_of_one_each) {
    const RecordFolder folder;
    const auto none = make_cache(folder, Validation::kStat);
    const auto all = make_cache(folder, Validation::kStat, 1);
    for (int hit = 0; hit < 100; ++hit) {
        CHECK(!none->is_next_checked());
        CHECK(all->is_next_checked());
    }
}

TEST_CASE(the_first_image_whose_check_fails_is_named_by_its_absolute_path) {
    const RecordFolder folder;
    const auto cache = make_cache(folder, Validation::kStat, 1);
    cache->count_check(true, bytes_of("/right.png"), nullptr);
    CHECK(cache->is_on() && cache->mismatched_path().empty());
    const WorkingDirectory directory;
    cache->count_check(false, bytes_of("./wrong.png"), &directory);
    cache->count_check(false, bytes_of("/later.png"), nullptr);
    CHECK(!cache->is_on());
    CHECK(cache->mismatched_path() == std::string(directory.path()) + "/wrong.png");
    CHECK_EQUAL(cache->counters().checks, 3U);
    CHECK_EQUAL(cache->counters().mismatches, 2U);

    const auto without_a_path = make_cache(folder, Validation::kStat, 1);
    without_a_path->count_check(false, {}, nullptr);
    CHECK(!without_a_path->is_on() && without_a_path->mismatched_path().empty());
}

TEST_CASE(a_record_is_of_a_file_that_has_each_of_its_facts) {
    const RecordFolder folder;
    const auto cache = make_cache(folder, Validation::kStat);
    const RecordStamp stamp = stamp_of(cache->key(), kFacts, bytes_of("contents"));
    CHECK(cache->is_of(stamp, {{}, kFacts}, {}));
    FileFacts others[] = {kFacts, kFacts, kFacts, kFacts};
    others[0].size += 1;
    others[1].mtime_ns += 1;
    others[2].ctime_ns += 1;
    others[3].inode += 1;
    for (const FileFacts& facts : others) CHECK(!cache->is_of(stamp, {{}, facts}, {}));
}

TEST_CASE(a_record_is_of_contents_with_their_length_where_those_are_checked) {
    const RecordFolder folder;
    const auto cache = make_cache(folder, Validation::kContent);
    const RecordStamp stamp = stamp_of(cache->key(), kFacts, bytes_of("contents"));
    CHECK(cache->is_of(stamp, {}, bytes_of("contents")));
    for (const std::string other : {"", "content", "Contents", "contents "}) {
        CHECK(!cache->is_of(stamp, {{}, kFacts}, bytes_of(other)));
    }
}

TEST_CASE(files_are_settled_a_minute_after_their_times_unless_those_are_whole_seconds) {
    constexpr std::int64_t kMinute = 60 * kSecond;
    CHECK(are_settled(kFacts, kFacts.ctime_ns + kMinute));
    CHECK(!are_settled(kFacts, kFacts.ctime_ns + kMinute - 1));
    FileFacts written_later = kFacts;
    written_later.mtime_ns = kFacts.ctime_ns + 1;
    CHECK(!are_settled(written_later, kFacts.ctime_ns + kMinute));
    CHECK(are_settled(written_later, kFacts.ctime_ns + kMinute + 1));
    FileFacts from_image = kFacts;
    from_image.ctime_ns = 8 * kSecond;
    CHECK(!are_settled(from_image, 100 * kMinute));
}

TEST_CASE(a_forked_child_looks_for_no_record) {
    CHECK(install_fork_counter());
    const RecordFolder folder;
    const auto cache = make_cache(folder, Validation::kStat);
    ContentKey key;
    CHECK(cache->is_on() && cache->find_key(bytes_of("/a.jpg"), nullptr, {}, &key));
    const auto looks_for_none = [&] {
        return !cache->is_on() && !cache->find_key(bytes_of("/a.jpg"), nullptr, {}, &key);
    };
    CHECK_EQUAL(in_forked_child(looks_for_none), 0);
    CHECK(cache->is_on());
}

}  // namespace fastload

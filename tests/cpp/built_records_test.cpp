// Coefficients and pixels of a store: built once, and read by others.
#include "engine/cache/built_records.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <thread>
#include <tuple>

#include "check.h"
#include "engine/cache/record_build.h"
#include "engine/cache/store_report.h"
#include "failing_allocation.h"
#include "hooked_calls.h"
#include "large_records.h"
#include "rounds.h"

namespace fastload {
namespace {

using namespace testing;

// The files of a folder: inode, times and contents of each.
std::map<std::string, std::tuple<ino_t, std::int64_t, std::int64_t, std::string>> state_of(const RecordFolder& folder) {
    std::map<std::string, std::tuple<ino_t, std::int64_t, std::int64_t, std::string>> state;
    for (const std::string& name : folder.names()) {
        struct stat facts = {};
        CHECK_EQUAL(::stat(folder.path(name).c_str(), &facts), 0);
        state[name] = {facts.st_ino, facts.st_mtim.tv_nsec + facts.st_mtim.tv_sec * 1'000'000'000,
                       facts.st_ctim.tv_nsec + facts.st_ctim.tv_sec * 1'000'000'000, folder.read(name)};
    }
    return state;
}

std::uint64_t num_right(const BuiltRecords& records, std::uint64_t count) {
    std::uint64_t right = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
        const LargeRead read = read_large(records, i);
        CHECK(read == LargeRead::kRight || read == LargeRead::kAbsent);
        right += read == LargeRead::kRight;
    }
    return right;
}

}  // namespace

TEST_CASE(what_was_built_is_read_in_parts_once_the_build_has_ended) {
    const RecordFolder folder;
    const auto expected = large_record(1, kUsualBytes);
    const auto before = open_built(folder);
    {
        const auto build = begin_build(folder);
        for (std::uint64_t i = 1; i < 20; ++i) CHECK(put_large(build.get(), i));
        CHECK_EQUAL(count_names(folder, ".dir"), 0U);
        CHECK(before->is_current());
        build->finish();
        CHECK_EQUAL(build->num_records(), 19U);
    }
    CHECK(!before->is_current());
    CHECK(read_large(*before, 1) == LargeRead::kAbsent);
    const auto records = open_built(folder);
    CHECK(records->is_current());
    const std::vector<std::size_t> places = {0, 1, kBlockBytes, kUsualBytes / 2 + 3, kUsualBytes - 1, kUsualBytes};
    for (const std::size_t begin : places) {
        for (const std::size_t end : places) {
            if (end < begin) continue;
            StoredRecord record;
            CHECK(records->find(content_key(1), &record));
            CHECK_EQUAL(record.size(), expected.size());
            RecordBytes part(end - begin);
            CHECK(record.read(begin, {part.data(), part.size()}));
            CHECK(std::equal(part.begin(), part.end(), expected.begin() + static_cast<std::ptrdiff_t>(begin)));
        }
    }
    for (std::uint64_t i = 1; i < 20; ++i) CHECK(has_large(*records, i));
    CHECK(read_large(*records, 20) == LargeRead::kAbsent);
    CHECK_EQUAL(records->counters().records, 19U);
    CHECK_EQUAL(records->counters().damaged, 0U);
    check_is_tidy(folder);
}

TEST_CASE(files_that_were_published_never_change_and_are_opened_to_be_read_only) {
    const RecordFolder folder;
    build_large(folder, 0, 10);
    const auto before = state_of(folder);
    const auto records = open_built(folder);
    CHECK_EQUAL(num_right(*records, 10), 10U);
    int num_open = 0;
    for (int fd = 0; fd < 1024; ++fd) {
        std::array<char, 4096> target = {};
        const std::string link = "/proc/self/fd/" + std::to_string(fd);
        if (::readlink(link.c_str(), target.data(), target.size() - 1) <= 0) continue;
        const std::string name = target.data();
        if (name.find(folder.path()) != 0 || name.find(".dat") == std::string::npos) continue;
        ++num_open;
        CHECK_EQUAL(::fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
    }
    CHECK_EQUAL(num_open, 1);
    // Neither other builds, nor stores of indexes, nor those that remove remains touch them.
    build_large(folder, 5, 10, kUsualBytes, 1);
    RunningStore indexes(folder);
    testing::put(indexes.get(), 1, 100);
    indexes.flush();
    indexes.close();
    const auto after = state_of(folder);
    for (const auto& [name, state] : before) {
        if (name != "lock") CHECK(after.at(name) == state);
    }
    CHECK_EQUAL(count_names(folder, ".dat"), 3U);
}

TEST_CASE(a_part_that_is_not_inside_of_its_record_is_not_read_and_no_damage) {
    const RecordFolder folder;
    build_large(folder, 1, 1, kBlockBytes);
    const auto records = open_built(folder);
    StoredRecord record;
    CHECK(records->find(content_key(1), &record));
    RecordBytes buffer(kBlockBytes + 1);
    CHECK(!record.read(0, {buffer.data(), buffer.size()}));
    CHECK(!record.read(1, {buffer.data(), kBlockBytes}));
    CHECK(!record.read(kBlockBytes + 1, {}));
    CHECK(!record.read(~std::uint64_t{0}, {buffer.data(), 1}));
    CHECK(record.read(kBlockBytes, {}));
    CHECK(record.read(0, {buffer.data(), kBlockBytes}));
    StoredRecord none;
    CHECK_EQUAL(none.size(), 0U);
    CHECK(!none.read(0, {}));
    CHECK_EQUAL(records->counters().damaged, 0U);
}

TEST_CASE(records_are_read_when_their_files_are_removed) {
    const RecordFolder folder;
    build_large(folder, 0, 4);
    const auto records = open_built(folder);
    for (const std::string& name : folder.names()) ::unlink(folder.path(name).c_str());
    CHECK_EQUAL(num_right(*records, 4), 4U);
    CHECK(!records->is_current());
    CHECK_EQUAL(open_built(folder)->counters().records, 0U);
}

TEST_CASE(finding_a_record_makes_no_allocation_and_no_call_of_the_system) {
    const RecordFolder folder;
    build_large(folder, 0, 4, kBlockBytes);
    const auto records = open_built(folder);
    const HookedCalls calls;
    const std::int64_t before = num_allocations();
    RecordBytes::value_type head[100];
    for (const std::uint64_t number : {0U, 1U, 2U, 3U, 6U}) {
        StoredRecord record;
        if (!records->find(content_key(number), &record)) continue;
        CHECK(record.read(0, {head, sizeof head}));
        CHECK(record.read(50, {head, sizeof head}));
    }
    CHECK_EQUAL(num_allocations(), before);
    // Two parts of each; the head of a record comes with the first of them.
    CHECK(calls.names() == std::vector<std::string>(8, "preadv"));
}

TEST_CASE(records_of_any_size_up_to_the_largest_are_kept_and_no_larger_ones) {
    constexpr std::uint32_t kLargest = std::uint32_t{32} << 20;
    CHECK_EQUAL(max_record_bytes(RecordKind::kCoefficients), kLargest);
    CHECK_EQUAL(max_record_bytes(RecordKind::kPixels), kLargest);
    const RecordFolder folder;
    const auto build = begin_build(folder, 256 * kMiB);
    const std::vector<std::size_t> sizes = {1, 100, 10'000, kLargest - 1, kLargest};
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        CHECK(build->put(content_key(i), 0, view_of(RecordBytes(sizes[i], static_cast<std::uint8_t>(i + 1)))));
    }
    CHECK(!build->put(content_key(9), 0, view_of(RecordBytes(kLargest + std::size_t{1}))));
    CHECK(!build->put(content_key(9), 0, {}));
    CHECK_EQUAL(build->error(), 0);
    build->finish();
    const auto records = open_built(folder);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        StoredRecord record;
        CHECK(records->find(content_key(i), &record));
        CHECK_EQUAL(record.size(), sizes[i]);
        std::uint8_t last = 0;
        CHECK(record.read(sizes[i] - 1, {&last, 1}));
        CHECK_EQUAL(last, i + 1);
    }
    CHECK_EQUAL(records->counters().records, sizes.size());
}

TEST_CASE(what_is_written_is_pushed_out_each_eight_mebibytes) {
    const RecordFolder folder;
    const auto build = begin_build(folder);
    const HookedCalls calls;
    for (std::uint64_t i = 0; i < 20; ++i) CHECK(put_large(build.get(), i, kMiB));
    build->finish();
    const auto count = [&calls](const char* name) {
        return std::count(calls.names().begin(), calls.names().end(), name);
    };
    CHECK_EQUAL(count("pwritev"), 22);  // and the heads of both files
    CHECK_EQUAL(count("sync_file_range"), 2);
    CHECK_EQUAL(count("fdatasync"), 1);
}

TEST_CASE(a_file_that_is_large_enough_is_published_and_another_one_begun) {
    const RecordFolder folder;
    constexpr std::uint64_t kRecords = 40;
    const auto build = begin_build(folder, 64 * kMiB, 3 * kUsualBytes);
    for (std::uint64_t i = 0; i < kRecords; ++i) CHECK(put_large(build.get(), i));
    CHECK_EQUAL(build->num_records(), kRecords - 1);
    build->finish();
    CHECK_EQUAL(build->num_records(), kRecords);
    CHECK_EQUAL(count_names(folder, ".dat"), kRecords / 3 + 1);
    CHECK_EQUAL(num_right(*open_built(folder), kRecords), kRecords);
    check_is_tidy(folder);
}

TEST_CASE(files_of_coefficients_grow_with_the_store) {
    constexpr RecordKind kind = RecordKind::kCoefficients;
    CHECK_EQUAL(max_record_file_bytes(kind, 0), std::uint64_t{1} << 30);
    CHECK_EQUAL(max_record_file_bytes(kind, std::uint64_t{128} << 30), std::uint64_t{1} << 30);
    CHECK_EQUAL(max_record_file_bytes(kind, std::uint64_t{1} << 40), std::uint64_t{8} << 30);
    CHECK_EQUAL(max_record_file_bytes(RecordKind::kIndex, std::uint64_t{1} << 20), std::uint64_t{64} << 20);
    CHECK_EQUAL(max_record_file_bytes(RecordKind::kIndex, std::uint64_t{2} << 30), std::uint64_t{128} << 20);
    CHECK_EQUAL(max_record_file_bytes(RecordKind::kIndex, std::uint64_t{1} << 40), std::uint64_t{256} << 20);
}

TEST_CASE(the_record_of_the_higher_rank_is_found_wherever_it_is) {
    const RecordFolder folder;
    for (const std::uint32_t rank : {5U, 7U, 6U}) build_large(folder, 1, 1, kUsualBytes, rank);
    CHECK(has_large(*open_built(folder), 1, 7));
    build_large(folder, 1, 1, kUsualBytes, 8);
    CHECK(has_large(*open_built(folder), 1, 8));
}

TEST_CASE(large_records_leave_room_for_indexes) {
    CHECK_EQUAL(room_for(RecordKind::kIndex, 8000, 0), 8000U);
    CHECK_EQUAL(room_for(RecordKind::kIndex, 8000, 7200), 800U);
    CHECK_EQUAL(room_for(RecordKind::kIndex, 8000, 9000), 0U);
    for (const RecordKind kind : {RecordKind::kCoefficients, RecordKind::kPixels}) {
        CHECK_EQUAL(room_for(kind, 32000, 0), 31000U);
        CHECK_EQUAL(room_for(kind, 32000, 9000), 22000U);
        CHECK_EQUAL(room_for(kind, 32000, 31500), 0U);
        CHECK_EQUAL(room_for(kind, 32000, ~std::uint64_t{0}), 0U);
    }
}

TEST_CASE(a_build_stays_within_the_bytes_of_the_store_and_leaves_some_for_indexes) {
    for (const std::uint64_t max_bytes : {4 * kMiB, 16 * kMiB}) {
        const RecordFolder folder;
        const auto build = begin_build(folder, max_bytes, 5 * kMiB);
        std::uint64_t num_kept = 0;
        while (put_large(build.get(), num_kept)) ++num_kept;
        CHECK_EQUAL(build->error(), kStoreIsFull);
        build->finish();
        CHECK(!put_large(build.get(), 0));
        CHECK_EQUAL(build->num_records(), num_kept);
        CHECK_EQUAL(num_right(*open_built(folder), num_kept), num_kept);
        CHECK(blocks_bytes(folder) <= max_bytes - max_bytes / 32);
        CHECK(num_kept * kUsualBytes > max_bytes / 4 * 3);
        RunningStore indexes(folder, {max_bytes, 0, true});
        for (std::uint64_t i = 0; i < 20; ++i) CHECK(testing::put(indexes.get(), i, 900));
        indexes.flush();
        CHECK_EQUAL(indexes->counters().write_error, 0);
        indexes.close();
        CHECK(testing::all_are_found_anew(folder, 20, 900));
        CHECK(blocks_bytes(folder) <= max_bytes);
        check_is_tidy(folder);
    }
}

TEST_CASE(builds_of_several_processes_stay_within_the_larger_budget) {
    constexpr std::uint64_t kMaxBytes = 24 * kMiB;
    const RecordFolder folder;
    std::vector<pid_t> children;
    for (std::uint64_t child = 0; child < 3; ++child) {
        children.push_back(fork());
        if (children.back() != 0) continue;
        alarm(60);
        const auto build = begin_build(folder, child == 0 ? kMaxBytes / 2 : kMaxBytes, 5 * kMiB);
        for (std::uint64_t i = 0; i < 80; ++i) put_large(build.get(), 1000 * child + i);
        build->finish();
        _exit(0);
    }
    std::uint64_t most = 0;
    for (const pid_t child : children) {
        int status = 0;
        while (::waitpid(child, &status, WNOHANG) == 0) most = std::max(most, blocks_bytes(folder));
        CHECK_EQUAL(status, 0);
    }
    CHECK(most <= kMaxBytes);
    CHECK(std::max(most, blocks_bytes(folder)) > kMaxBytes / 2);
    check_is_tidy(folder);
}

TEST_CASE(each_kind_removes_its_own_remains_and_no_others) {
    const RecordFolder folder;
    const std::vector<std::string> index = {"index-0123456789abcdef.dir", "index-0123456789abcdee.tmp"};
    const std::vector<std::string> coefficients = {"coefficients-0123456789abcdef.dir",
                                                   "coefficients-0123456789abcdee.tmp"};
    for (const auto* names : {&index, &coefficients}) {
        for (const std::string& name : *names) folder.write(name, "x");
    }
    RunningStore(folder).flush();
    CHECK(!folder.has(index[0]) && !folder.has(index[1]));
    CHECK(folder.has(coefficients[0]) && folder.has(coefficients[1]));
    folder.write(index[0], "x");
    begin_build(folder);
    CHECK(!folder.has(coefficients[0]) && !folder.has(coefficients[1]));
    CHECK(folder.has(index[0]));
}

TEST_CASE(records_of_one_kind_are_not_those_of_the_other) {
    const RecordFolder folder;
    {
        RunningStore indexes(folder);
        CHECK(testing::put(indexes.get(), 1, 100));
    }
    build_large(folder, 1, 2);
    CHECK_EQUAL(open_built(folder)->counters().records, 2U);
    CHECK_EQUAL(open_built(folder, RecordKind::kPixels)->counters().records, 0U);
    // Under another kind's name a file is a foreign one.
    for (const std::string& name : folder.names()) {
        const std::string other = "coefficients-";
        if (name.compare(0, other.size(), other) != 0) continue;
        for (const char* kind : {"index-", "pixels-"}) {
            CHECK_EQUAL(::link(folder.path(name).c_str(), folder.path(kind + name.substr(other.size())).c_str()), 0);
        }
    }
    CHECK_EQUAL(open_built(folder, RecordKind::kPixels)->counters().records, 0U);
    const auto indexes = testing::make_store(folder);
    CHECK_EQUAL(indexes->open(), 0);
    CHECK_EQUAL(indexes->counters().records, 1U);
}

TEST_CASE(each_call_of_the_system_may_fail_once_in_a_build_and_no_record_is_wrong) {
    constexpr std::uint64_t kRecords = 6;
    for (const auto& [error, step] :
         {std::make_pair(EIO, 1), {ENOSPC, 2}, {EMFILE, 3}, {HookedCalls::kMovesOneByte, 3}}) {
        for (int n = 1;; n += testing::stride(step)) {
            testing::current_variant() = "call " + std::to_string(n) + ", " + std::to_string(error);
            const RecordFolder folder;
            build_large(folder, 100, 1, kBlockBytes);
            const auto build = begin_build(folder, 64 * kMiB, 9000);
            bool was_reached = false;
            {
                HookedCalls calls(n, error);
                for (std::uint64_t i = 0; i < kRecords; ++i) put_large(build.get(), i, kBlockBytes);
                build->finish();
                was_reached = calls.was_reached();
            }
            const auto records = open_built(folder);
            // A file may be published by the call that failed.
            CHECK(num_right(*records, kRecords) >= build->num_records());
            CHECK(build->error() != 0 || build->num_records() == kRecords);
            CHECK(has_large(*records, 100));
            CHECK_EQUAL(records->counters().damaged, 0U);
            begin_build(folder);  // removes what is left
            check_is_tidy(folder);
            if (!was_reached) break;
        }
    }
}

TEST_CASE(a_build_that_is_killed_at_any_call_of_the_system_leaves_nothing_wrong) {
    constexpr std::uint64_t kRecords = 6;
    for (int n = 1;; n += testing::stride(1)) {
        testing::current_variant() = "call " + std::to_string(n);
        const RecordFolder folder;
        build_large(folder, 100, 1, kBlockBytes);
        const pid_t child = fork();
        if (child == 0) {
            HookedCalls calls(n, [] { return ::kill(::getpid(), SIGKILL); });
            const auto build = begin_build(folder, 64 * kMiB, 9000);
            for (std::uint64_t i = 0; i < kRecords; ++i) put_large(build.get(), i, kBlockBytes);
            build->finish();
            _exit(0);
        }
        int status = 0;
        CHECK(::waitpid(child, &status, 0) == child);
        CHECK(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
        begin_build(folder);
        check_is_tidy(folder);
        const auto records = open_built(folder);
        const std::uint64_t right = num_right(*records, kRecords);
        CHECK_EQUAL(records->counters().records, right + 1);
        CHECK(has_large(*records, 100));
        CHECK_EQUAL(records->counters().damaged, 0U);
        if (!WIFSIGNALED(status)) {
            CHECK_EQUAL(right, kRecords);
            break;
        }
    }
}

TEST_CASE(each_allocation_may_fail_once_in_a_build_and_in_opening_it) {
    bool has_failed = true;
    for (std::int64_t n = 1; has_failed; ++n) {
        testing::current_variant() = "allocation " + std::to_string(n);
        const RecordFolder folder;
        const std::vector<RecordBytes> made = {large_record(0, kBlockBytes), large_record(1, kBlockBytes)};
        const auto build = begin_build(folder);
        bool is_opened = false;
        {
            const FailingAllocation failing(n, true);
            for (std::uint64_t i = 0; i < made.size(); ++i) {
                static_cast<void>(build->put(content_key(i), 0, view_of(made[i])));
            }
            build->finish();
            try {
                BuiltRecords records(testing::duplicate(folder), std::make_unique<const HashKey>(store_key()),
                                     RecordKind::kCoefficients);
                is_opened = records.open() == 0;
            } catch (const std::bad_alloc&) {
            }
            has_failed = FailingAllocation::has_failed();
        }
        CHECK(is_opened || has_failed);
        CHECK(build->error() == 0 || build->error() == ENOMEM);
        CHECK(num_right(*open_built(folder), made.size()) >= build->num_records());
        CHECK(build->error() != 0 || build->num_records() == made.size());
        begin_build(folder);
        check_is_tidy(folder);
    }
}

TEST_CASE(a_file_that_cannot_be_opened_for_now_is_looked_at_again) {
    const RecordFolder folder;
    build_large(folder, 0, 2);
    BuiltRecords records(testing::duplicate(folder), std::make_unique<const HashKey>(store_key()),
                         RecordKind::kCoefficients);
    {
        HookedCalls calls(2, EMFILE);  // the first one lists the folder
        static_cast<void>(records.open());
    }
    CHECK(records.counters().records == 2 || !records.is_current());
}

TEST_CASE(threads_of_a_build_put_at_once) {
    const RecordFolder folder;
    constexpr std::uint64_t kRecords = 60;
    constexpr std::size_t kSize = 4 * kBlockBytes;
    const auto build = begin_build(folder, 64 * kMiB, 10 * kSize);
    std::vector<std::thread> threads;
    for (std::uint64_t thread = 0; thread < 4; ++thread) {
        threads.emplace_back([&, thread] {
            for (std::uint64_t i = thread; i < kRecords; i += 4) CHECK(put_large(build.get(), i, kSize));
        });
    }
    for (std::thread& thread : threads) thread.join();
    build->finish();
    CHECK_EQUAL(build->error(), 0);
    const auto records = open_built(folder);
    std::atomic<std::uint64_t> num_found{0};
    std::vector<std::thread> readers;
    for (int reader = 0; reader < 4; ++reader) {
        readers.emplace_back([&] { num_found += num_right(*records, kRecords); });
    }
    for (std::thread& reader : readers) reader.join();
    CHECK_EQUAL(num_found.load(), 4 * kRecords);
}

TEST_CASE(parts_that_cannot_be_read_are_counted_and_too_many_in_a_row_end_reading) {
    const RecordFolder folder;
    build_large(folder, 1, 1);
    const auto store = open_built(folder);
    std::uint64_t damaged = 0;
    for (int n = 1;; ++n) {  // the head with the first bytes, and the middle
        const HookedCalls failing(n, EIO);
        const LargeRead read = read_large(*store, 1);
        if (!failing.was_reached()) {
            CHECK(read == LargeRead::kRight);
            CHECK_EQUAL(n, 3);
            break;
        }
        CHECK(read == LargeRead::kUnread);
        CHECK_EQUAL(store->counters().damaged, ++damaged);
    }
    for (const int partly : {EINTR, HookedCalls::kMovesOneByte}) {
        for (int n = 1; n <= 2; ++n) {
            const HookedCalls hooked(n, partly);
            CHECK(has_large(*store, 1));
        }
    }
    CHECK_EQUAL(store->counters().read_error, 0);
    for (int i = 0; i < 100; ++i) {
        CHECK_EQUAL(store->counters().read_error, 0);
        const HookedCalls failing(1, EIO);
        CHECK(read_large(*store, 1) == LargeRead::kUnread);
    }
    CHECK_EQUAL(store->counters().read_error, EIO);
    CHECK(read_large(*store, 1) == LargeRead::kAbsent);
    CHECK_EQUAL(store->counters().damaged, 102U);
}

TEST_CASE(a_head_that_is_another_records_is_seen_whatever_part_is_read_first) {
    const RecordFolder folder;
    build_large(folder, 1, 1);
    const auto store = open_built(folder);
    const std::string name = folder.names()[0];
    const std::string good = folder.read(name);
    constexpr std::size_t kFileHeadBytes = 40;
    constexpr std::size_t kHeadBytes = 28;  // of which all but the rank is compared
    for (std::size_t i = 0; i < kHeadBytes; ++i) {
        folder.write(name,
                     testing::with_value(good, kFileHeadBytes + i, static_cast<char>(good[kFileHeadBytes + i] ^ 4)));
        for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{5000}}) {
            StoredRecord record;
            CHECK(store->find(content_key(1), &record));
            RecordBytes part(100);
            CHECK(!record.read(offset, {part.data(), part.size()}));
            CHECK(!record.read(offset, {part.data(), part.size()}));
        }
    }
    CHECK_EQUAL(store->counters().damaged, 4 * kHeadBytes);
    CHECK_EQUAL(store->counters().read_error, 0);
    folder.write(name, good);
    CHECK(has_large(*store, 1));
}

// The store looks only at the head of a record; its own checks tell what is wrong after it.
TEST_CASE(of_damaged_records_right_bytes_are_read_or_such_as_their_own_checks_refuse) {
    const RecordFolder folder;
    constexpr std::uint64_t kRecords = 6;
    constexpr std::size_t kSize = 5 * kBlockBytes;
    build_large(folder, 0, kRecords, kSize);
    std::string name = folder.names()[0];
    CHECK(name.substr(name.size() - 4) == ".dat");
    const std::string good = folder.read(name);
    std::array<std::size_t, 4> reads = {};
    for (std::uint64_t seed = 0; seed < 600; ++seed) {
        testing::current_variant() = "seed " + std::to_string(seed);
        std::mt19937_64 random(seed);
        folder.write(name, testing::damaged(good, &random));
        const auto store = open_built(folder);
        for (std::uint64_t i = 0; i < kRecords; ++i) {
            const LargeRead read = read_large(*store, i);
            ++reads[static_cast<std::size_t>(read)];
            StoredRecord record;
            if (read != LargeRead::kRight || !store->find(content_key(i), &record)) continue;
            RecordBytes head(kBlockBytes);
            CHECK(record.read(0, {head.data(), head.size()}));
            CHECK(std::equal(head.begin(), head.end(), large_record(i, kSize).begin()));
        }
        CHECK(store->counters().damaged <= kRecords);
    }
    for (const LargeRead read : {LargeRead::kUnread, LargeRead::kWrong, LargeRead::kRight}) {
        CHECK(reads[static_cast<std::size_t>(read)] > 100);
    }
}

// With the key somebody can make all checks right.
TEST_CASE(a_place_that_is_larger_than_any_record_of_the_kind_is_none) {
    constexpr RecordKind kind = RecordKind::kCoefficients;
    const RecordFolder folder;
    {
        testing::fill_files(folder, 1, 2, 100, 0, kind);
        const HashKey key = store_key();
        constexpr std::uint32_t kLargest = max_record_bytes(kind);
        const std::uint32_t revision = decoder_revision(kind);
        std::string name = folder.names()[0];
        name.resize(name.size() - 4);
        RecordDirectory directory;
        int error = 0;
        CHECK(read_record_directory(folder.descriptor(), name, kind, revision, key, &directory, &error) ==
              RecordFileVerdict::kGood);
        for (const std::uint32_t size :
             {kLargest, kLargest + 1, std::uint32_t{1} << 26, (std::uint32_t{1} << 26) + 100, ~std::uint32_t{0}}) {
            RecordDirectory hostile = directory;
            hostile.covered_bytes = std::uint64_t{1} << 40;
            for (DirectoryEntry& entry : hostile.entries) entry.size = size;
            CHECK_EQUAL(write_record_directory(folder.descriptor(), name, kind, revision, key, hostile), 0);
            const auto store = open_built(folder);
            StoredRecord record;
            CHECK_EQUAL(store->find(content_key(0), &record), size == kLargest);
            std::uint8_t byte = 0;
            CHECK(!record.read(0, {&byte, 1}));
        }
    }
}

TEST_CASE(a_record_is_dead_where_any_file_has_a_better_one_and_one_that_is_not_published_yet_is_not) {
    const RecordFolder folder;
    const HashKey key = store_key();
    const StorePlace place = place_of(folder, key, 64 * kMiB, RecordKind::kCoefficients);
    const RecordBytes record(1000);
    const auto append = [&](RecordAppender* appender, std::uint64_t number, std::uint32_t rank) {
        CHECK_EQUAL(appender->append(content_key(number), rank, view_of(record)), 0);
    };
    std::shared_ptr<const OpenedRecords> opened;
    RecordAppender living(place, 64 * kMiB);
    for (const std::uint64_t number : {1U, 2U, 3U, 3U}) append(&living, number, 5);
    CHECK_EQUAL(living.publish(&opened), 0);
    append(&living, 4, 5);
    {
        RecordAppender other(place, 64 * kMiB);
        append(&other, 1, 4);
        append(&other, 2, 6);
        CHECK_EQUAL(other.publish(&opened), 0);
    }
    std::vector<StoreFileReport> files;
    CHECK_EQUAL(report_store(place, RecordCheck(), &files), 0);
    CHECK_EQUAL(files.size(), 2U);
    const std::uint64_t bytes = record_file_bytes(record.size());
    for (const StoreFileReport& file : files) {
        const bool is_living = file.name == living.name();
        CHECK_EQUAL(file.records, is_living ? 3U : 2U);
        CHECK_EQUAL(file.live_records, is_living ? 2U : 1U);
        CHECK_EQUAL(file.live_bytes, file.live_records * bytes);
        CHECK_EQUAL(file.dead_bytes, sizeof(RecordFileHead) + (is_living ? 2U : 1U) * bytes);
        CHECK_EQUAL(file.file_bytes, sizeof(RecordFileHead) + (is_living ? 5U : 2U) * bytes);
    }
}

TEST_CASE(a_report_is_of_the_kind_it_is_asked_for_and_checks_as_it_is_told) {
    const RecordFolder folder;
    testing::fill_files(folder, 2, 5, 300, 0, RecordKind::kCoefficients);
    testing::fill_files(folder, 1, 3, 200, 0, RecordKind::kIndex);
    const HashKey key = store_key();
    const auto is_odd = [](const ContentKey& of, ByteSpan record) {
        CHECK(record.size() == 300 || record.size() == 200);
        return of.length % 2 == 1;
    };
    for (const auto& [kind, num_files, size] :
         {std::make_tuple(RecordKind::kIndex, 1U, 200U), {RecordKind::kCoefficients, 2U, 300U}}) {
        for (const RecordCheck& check : {RecordCheck(), RecordCheck(is_odd)}) {
            std::vector<StoreFileReport> files;
            CHECK_EQUAL(report_store(place_of(folder, key, kMiB, kind), check, &files), 0);
            CHECK_EQUAL(files.size(), num_files);
            std::uint64_t records = 0;
            std::uint64_t damaged = 0;
            for (const StoreFileReport& file : files) {
                CHECK(file.verdict == RecordFileVerdict::kGood && !file.has_writer);
                CHECK_EQUAL(file.live_bytes, file.records * record_file_bytes(size));
                records += file.records;
                damaged += file.damaged;
            }
            CHECK_EQUAL(records, kind == RecordKind::kIndex ? 3U : 10U);
            // Lengths are 1000 and the number.
            CHECK_EQUAL(damaged, check == nullptr ? 0U : kind == RecordKind::kIndex ? 2U : 5U);
        }
    }
}

}  // namespace fastload

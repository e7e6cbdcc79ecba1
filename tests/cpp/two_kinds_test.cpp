// Indexes and coefficients in one folder, of one process and of several: its bytes, and what killed ones leave.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "large_records.h"

namespace fastload {
namespace {

using testing::blocks_bytes;
using testing::content_key;
using testing::count_names;
using testing::has;
using testing::has_large;
using testing::kBlockBytes;
using testing::kMiB;
using testing::kUsualBytes;
using testing::LargeRead;
using testing::make_store;
using testing::of_coefficients;
using testing::put;
using testing::put_large;
using testing::read_large;
using testing::RecordFolder;
using testing::RunningStore;
using testing::StoreSettings;

constexpr std::size_t kIndexBytes = 900;

StoreSettings of_indexes(std::uint64_t max_bytes, std::uint64_t max_file_bytes = 0) {
    return {max_bytes, max_file_bytes, true, RecordKind::kIndex};
}

// Keeps coefficients of `count` images, and indexes of more, in stores of its own, as a process does.
void keep_both(const RecordFolder& folder, std::uint64_t max_bytes, std::uint64_t first, std::uint64_t count) {
    RunningStore coefficients(folder, of_coefficients(max_bytes, 5 * kMiB));
    RunningStore indexes(folder, of_indexes(max_bytes, 200'000));
    for (std::uint64_t i = first; i < first + count; ++i) {
        put_large(coefficients.get(), i, kUsualBytes);
        for (std::uint64_t j = 0; j < 3; ++j) put(indexes.get(), 3 * i + j, kIndexBytes);
        if (i % 20 != 0) continue;
        coefficients.flush();
        indexes.flush();
    }
}

// The most that files took while `work` went on.
template <typename Work>
std::uint64_t most_blocks_bytes(const RecordFolder& folder, const Work& work) {
    std::atomic<bool> is_over{false};
    std::uint64_t most = 0;
    std::thread watch([&] {
        while (!is_over.load()) most = std::max(most, blocks_bytes(folder));
    });
    work();
    is_over.store(true);
    watch.join();
    return std::max(most, blocks_bytes(folder));
}

pid_t in_child(const std::function<void()>& work) {
    const pid_t child = fork();
    if (child != 0) return child;
    alarm(60);
    work();
    _exit(0);
}

int status_of(pid_t child) {
    int status = -1;
    CHECK_EQUAL(::waitpid(child, &status, 0), child);
    return status;
}

}  // namespace

TEST_CASE(indexes_leave_room_for_merging_and_coefficients_for_indexes) {
    const BudgetShares index = index_rules().leaves;
    CHECK_EQUAL(budget_alone(index, 8000), 7000U);
    CHECK(is_within_budget(index, 8000, 7000, 0));
    CHECK(!is_within_budget(index, 8000, 7008, 0));
    CHECK(is_within_budget(index, 8000, 700, 7200));
    CHECK(!is_within_budget(index, 8000, 707, 7200));
    const BudgetShares coefficients = coefficient_rules(32000).leaves;
    CHECK_EQUAL(budget_alone(coefficients, 32000), 31000U);
    CHECK(is_within_budget(coefficients, 32000, 31000, 0));
    CHECK(!is_within_budget(coefficients, 32000, 31001, 0));
    CHECK(is_within_budget(coefficients, 32000, 20000, 9000));
    CHECK(!is_within_budget(coefficients, 32000, 20001, 9000));
    constexpr std::uint64_t kMost = ~std::uint64_t{0};
    for (const BudgetShares& leaves : {index, coefficients, BudgetShares()}) {
        CHECK(is_within_budget(leaves, kMost, 1 << 30, 1 << 30));
        CHECK(!is_within_budget(leaves, 1000, kMost, 0));
        CHECK(!is_within_budget(leaves, 1000, 0, kMost));
        CHECK(!is_within_budget(leaves, 1000, kMost, kMost));
    }
    CHECK(is_within_budget({}, 1000, 600, 400));
}

TEST_CASE(two_kinds_of_one_process_stay_within_one_budget_and_indexes_are_kept_beside_coefficients) {
    for (const std::uint64_t max_bytes : {4 * kMiB, 16 * kMiB}) {
        testing::current_variant() = std::to_string(max_bytes);
        const RecordFolder folder;
        const std::uint64_t count = 2 * max_bytes / kUsualBytes;  // twice as many as fit
        const std::uint64_t most = most_blocks_bytes(folder, [&] { keep_both(folder, max_bytes, 0, count); });
        CHECK(most <= max_bytes);
        // Coefficients may end while indexes have reserved a step of 1 MiB, and no look may fall into that time.
        CHECK(most > max_bytes / 2);
        const auto coefficients = make_store(folder, of_coefficients());
        const auto indexes = make_store(folder, of_indexes(max_bytes));
        CHECK_EQUAL(coefficients->open(), 0);
        CHECK_EQUAL(indexes->open(), 0);
        std::uint64_t num_coefficients = 0;
        std::uint64_t num_indexes = 0;
        for (std::uint64_t i = 0; i < count; ++i) {
            num_coefficients += has_large(*coefficients, i);
            for (std::uint64_t j = 0; j < 3; ++j) num_indexes += has(*indexes, 3 * i + j, kIndexBytes);
        }
        CHECK(num_coefficients > count / 4 && num_coefficients < count);
        // Of those images as well that came when there was no room for coefficients any more.
        CHECK_EQUAL(num_indexes, 3 * count);
    }
    testing::current_variant() = "";
}

TEST_CASE(two_kinds_of_several_processes_stay_within_the_larger_budget) {
    constexpr std::uint64_t kMaxBytes = 24 * kMiB;
    constexpr std::uint64_t kCount = 80;
    const RecordFolder folder;
    std::vector<pid_t> children;
    for (std::uint64_t i = 0; i < 3; ++i) {
        const std::uint64_t max_bytes = i == 0 ? kMaxBytes / 2 : kMaxBytes;
        children.push_back(in_child([&, i] { keep_both(folder, max_bytes, 1000 * i, kCount); }));
    }
    const std::uint64_t most = most_blocks_bytes(folder, [&children] {
        for (const pid_t child : children) CHECK_EQUAL(status_of(child), 0);
    });
    CHECK(most <= kMaxBytes);
    CHECK(most > kMaxBytes / 4 * 3);
    CHECK_EQUAL(count_names(folder, ".tmp"), 0U);
    CHECK_EQUAL(count_names(folder, ".dat"), count_names(folder, ".dir"));
}

TEST_CASE(each_kind_removes_its_own_remains_and_no_others) {
    const RecordFolder folder;
    const std::vector<std::string> index = {"index-0123456789abcdef.dir", "index-0123456789abcdee.tmp"};
    const std::vector<std::string> coefficients = {"coefficients-0123456789abcdef.dir",
                                                   "coefficients-0123456789abcdee.tmp"};
    for (const auto* names : {&index, &coefficients}) {
        for (const std::string& name : *names) folder.write(name, "x");
    }
    const auto has_all = [&folder](const std::vector<std::string>& names) {
        return std::all_of(names.begin(), names.end(), [&](const std::string& name) { return folder.has(name); });
    };
    RunningStore(folder, of_indexes(kMiB)).flush();
    CHECK(!folder.has(index[0]) && !folder.has(index[1]));
    CHECK(has_all(coefficients));
    folder.write(index[0], "x");
    RunningStore(folder, of_coefficients()).flush();
    CHECK(!folder.has(coefficients[0]) && !folder.has(coefficients[1]));
    CHECK(folder.has(index[0]));
}

TEST_CASE(records_of_one_kind_are_not_those_of_the_other) {
    const RecordFolder folder;
    {
        RunningStore indexes(folder, of_indexes(64 * kMiB));
        RunningStore coefficients(folder, of_coefficients());
        CHECK(put(indexes.get(), 1, 100));
        CHECK(put_large(coefficients.get(), 1, kUsualBytes));
        CHECK(put_large(coefficients.get(), 2, kUsualBytes));
        indexes.flush();
        coefficients.flush();
        indexes.flush();
        CHECK(has(*indexes, 1, 100) && has_large(*coefficients, 1));
        CHECK_EQUAL(indexes->counters().records, 1U);
        CHECK_EQUAL(coefficients->counters().records, 2U);
    }
    // Under the other kind's name a file is a foreign one.
    for (const std::string& name : folder.names()) {
        const std::string other = "coefficients-";
        if (name.compare(0, other.size(), other) != 0) continue;
        CHECK_EQUAL(::link(folder.path(name).c_str(), folder.path("index-" + name.substr(other.size())).c_str()), 0);
    }
    const auto indexes = make_store(folder, of_indexes(64 * kMiB));
    CHECK_EQUAL(indexes->open(), 0);
    CHECK_EQUAL(indexes->counters().records, 1U);
}

TEST_CASE(of_a_process_that_is_killed_at_any_time_whole_records_stay) {
    constexpr std::uint64_t kRecords = 2000;
    constexpr std::size_t kSize = 6 * kBlockBytes;
    std::mt19937_64 random(20);
    for (int round = 0; round < 12; ++round) {
        testing::current_variant() = "round " + std::to_string(round);
        const RecordFolder folder;
        const pid_t child = in_child([&folder] {
            RunningStore store(folder, of_coefficients(64 * kMiB, 20 * kSize));
            for (std::uint64_t i = 0; i < kRecords; ++i) {
                put_large(store.get(), i, kSize);
                if (i % 10 == 0) store->end_epoch();
            }
            ::pause();
        });
        for (int i = 0; i < 100'000 && count_names(folder, ".dir") == 0; ++i) ::usleep(100);
        ::usleep(static_cast<useconds_t>(random() % 20'000));
        ::kill(child, SIGKILL);
        CHECK(WIFSIGNALED(status_of(child)));
        RunningStore next(folder, of_coefficients());
        next.flush();
        next.close();
        std::uint64_t num_found = 0;
        for (std::uint64_t i = 0; i < kRecords; ++i) {
            const LargeRead read = read_large(*next, i);
            CHECK(read == LargeRead::kRight || read == LargeRead::kAbsent);
            num_found += read == LargeRead::kRight;
        }
        CHECK(num_found > 0);
        CHECK_EQUAL(num_found, next->counters().records);
        CHECK_EQUAL(next->counters().damaged, 0U);
        testing::check_is_tidy(folder);
    }
    testing::current_variant() = "";
}

}  // namespace fastload

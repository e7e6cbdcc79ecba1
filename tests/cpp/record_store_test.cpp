#include "engine/cache/record_store.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "check.h"
#include "engine/cache/record_merge.h"
#include "failing_allocation.h"
#include "forked_child.h"
#include "hooked_calls.h"
#include "running_store.h"

namespace fastload {
namespace {

using testing::blocks_bytes;
using testing::check_is_tidy;
using testing::content_key;
using testing::count_names;
using testing::FailingAllocation;
using testing::fill_files;
using testing::found;
using testing::has;
using testing::HookedCalls;
using testing::in_forked_child;
using testing::kMiB;
using testing::make_store;
using testing::place_of;
using testing::put;
using testing::RecordBytes;
using testing::RecordFolder;
using testing::RunningStore;
using testing::store_key;
using testing::StoreSettings;
using testing::view_of;

constexpr std::size_t kClosedFiles = 8;  // more are merged
constexpr std::array<RecordKind, 2> kKinds = {RecordKind::kIndex, RecordKind::kCoefficients};

StoreSettings of_kind(RecordKind kind, std::uint64_t max_file_bytes = 0) {
    return {64 * kMiB, max_file_bytes, true, kind};
}

// Whether a process that comes now finds all of the records of the numbers [0, count).
bool all_are_found_anew(const RecordFolder& folder, std::uint64_t count, std::size_t size) {
    const auto store = make_store(folder);
    CHECK_EQUAL(store->open(), 0);
    for (std::uint64_t i = 0; i < count; ++i) {
        if (!has(*store, i, size)) return false;
    }
    return true;
}

}  // namespace

TEST_CASE(a_record_is_found_before_and_after_it_is_published) {
    for (const RecordKind kind : kKinds) {
        const RecordFolder folder;
        RunningStore store(folder, of_kind(kind));
        CHECK(found(*store, 1).empty());
        for (std::uint64_t i = 0; i < 50; ++i) CHECK(put(store.get(), i, 10 + i));
        for (std::uint64_t i = 0; i < 50; ++i) CHECK(has(*store, i, 10 + i));
        store.flush();
        for (std::uint64_t i = 0; i < 50; ++i) CHECK(has(*store, i, 10 + i));
        CHECK(put(store.get(), 50, 60));
        store.flush();
        for (std::uint64_t i = 0; i < 51; ++i) CHECK(has(*store, i, 10 + i));
        CHECK(found(*store, 51).empty());
        const StoreCounters counters = store->counters();
        CHECK_EQUAL(counters.records, 51U);
        CHECK_EQUAL(counters.damaged, 0U);
        CHECK_EQUAL(counters.write_error, 0);
        CHECK(counters.bytes_read > 0);
        CHECK(counters.bytes_written > 51 * 10);
        store.close();
        CHECK_EQUAL(count_names(folder, ".dat"), 1U);
        check_is_tidy(folder);
    }
}

TEST_CASE(of_a_key_the_better_record_stays_and_of_equal_ones_the_first) {
    for (const RecordKind kind : kKinds) {
        const RecordFolder folder;
        for (const bool is_flushed : {false, true}) {
            RunningStore store(folder, of_kind(kind));
            const std::uint64_t number = is_flushed ? 2 : 1;
            const auto flush = [&] {
                if (is_flushed) store.flush();
            };
            CHECK(put(store.get(), number, 40, 2));
            flush();
            CHECK(put(store.get(), number, 50, 1));
            CHECK(store->put(content_key(number), 2, view_of(testing::record_bytes(77, 30))));
            flush();
            CHECK(has(*store, number, 40, 2));
            CHECK(put(store.get(), number, 60, 3));
            CHECK(has(*store, number, 60, 3));
            store.flush();
            CHECK(has(*store, number, 60, 3));
            RunningStore other(folder, of_kind(kind));
            CHECK(has(*other, number, 60, 3));
            CHECK(put(other.get(), number, 70, 3));  // no better
            CHECK(put(other.get(), number, 70, 2));
            other.close();
            CHECK_EQUAL(other->counters().bytes_written, 0U);
        }
    }
}

TEST_CASE(stores_on_one_folder_find_what_each_of_them_publishes) {
    const RecordFolder folder;
    RunningStore one(folder);
    RunningStore other(folder);
    for (std::uint64_t round = 0; round < 4; ++round) {
        CHECK(put(one.get(), 2 * round, 100));
        CHECK(put(other.get(), 2 * round + 1, 100));
        one.flush();
        other.flush();
        one.flush();
        for (std::uint64_t i = 0; i < 2 * round + 2; ++i) {
            CHECK(has(*one, i, 100));
            CHECK(has(*other, i, 100));
        }
    }
    CHECK_EQUAL(count_names(folder, ".dat"), 2U);
}

TEST_CASE(a_record_that_was_found_once_is_found_ever_after) {
    const RecordFolder folder;
    fill_files(folder, kClosedFiles, 1, 50, 5000);
    RunningStore store(folder);
    std::vector<ContentKey> keys;
    for (std::uint64_t i = 0; i < 300; ++i) keys.push_back(content_key(i));
    std::atomic<std::size_t> last{0};
    std::atomic<bool> is_over{false};
    std::atomic<int> losses{0};
    std::thread reader([&] {
        RecordBytes buffer(100);
        while (!is_over.load()) {
            const std::size_t number = last.load();
            if (number != 0 && store->find(keys[number], {buffer.data(), buffer.size()}) != 20) ++losses;
        }
    });
    for (std::uint64_t i = 1; i < 300; ++i) {
        CHECK(put(store.get(), i, 20));
        last.store(i);
        store.flush();
    }
    is_over.store(true);
    reader.join();
    CHECK_EQUAL(losses.load(), 0);
}

TEST_CASE(a_record_that_was_wrong_is_not_found_again_and_not_written_again) {
    const RecordFolder folder;
    RunningStore store(folder);
    CHECK(put(store.get(), 1, 100));
    CHECK(put(store.get(), 2, 100));
    store.flush();
    store->remove(content_key(1));
    CHECK(found(*store, 1).empty());
    CHECK(has(*store, 2, 100));
    const std::uint64_t before = store->counters().bytes_written;
    for (int epoch = 0; epoch < 3; ++epoch) {
        put(store.get(), 1, 100);
        store.flush();
    }
    CHECK_EQUAL(store->counters().bytes_written, before);
}

TEST_CASE(blocks_on_disk_stay_within_the_larger_budget) {
    for (const std::size_t size : {100U, 900U, 20000U}) {
        for (const std::uint64_t small : {kMiB, 2 * kMiB}) {
            const RecordFolder folder;
            std::atomic<std::uint64_t> most{0};
            {
                RunningStore one(folder, {small, 200'000, true});
                RunningStore other(folder, {2 * kMiB, 300'000, true});
                std::atomic<bool> is_over{false};
                std::thread watch([&] {
                    while (!is_over.load()) most.store(std::max(most.load(), blocks_bytes(folder)));
                });
                for (std::uint64_t i = 0; i < 4 * kMiB / (size + 60); ++i) {
                    put(i % 2 == 0 ? one.get() : other.get(), i, size);
                    if (i % 1500 == 0) one.flush();
                    if (i % 1000 == 0) other.flush();
                }
                one.flush();
                other.flush();
                is_over.store(true);
                watch.join();
                CHECK_EQUAL(other->counters().write_error, kStoreIsFull);
            }
            CHECK(most.load() > kMiB / 2);
            testing::current_variant() = std::to_string(size);
            CHECK(most.load() <= 2 * kMiB);
            CHECK(blocks_bytes(folder) <= 2 * kMiB);
            testing::current_variant() = "";
            RunningStore reader(folder);
            std::uint64_t num_found = 0;
            for (std::uint64_t i = 0; i < 4 * kMiB / (size + 60); ++i) num_found += has(*reader, i, size);
            CHECK(num_found * size > kMiB / 5);
        }
    }
}

TEST_CASE(a_full_store_goes_on_with_what_it_has_and_tries_again_in_the_next_epoch) {
    const RecordFolder folder;
    RunningStore store(folder, {kMiB, kMiB, true});
    for (std::uint64_t i = 0; i < 100; ++i) put(store.get(), i, 20000);
    store.flush();
    CHECK_EQUAL(store->counters().write_error, kStoreIsFull);
    CHECK(has(*store, 0, 20000));
    CHECK(!put(store.get(), 200, 20000));
    store->begin_epoch();
    CHECK(put(store.get(), 201, 20000));
    store.flush();
    CHECK(!put(store.get(), 202, 20000));
    store.close();
    check_is_tidy(folder);
}

TEST_CASE(a_writer_that_finds_a_full_store_leaves_no_file) {
    const RecordFolder folder;
    fill_files(folder, 1, 100, 20000);
    RunningStore store(folder, {kMiB, kMiB, true});
    put(store.get(), 200, 2000);
    store.flush();
    CHECK_EQUAL(store->counters().write_error, kStoreIsFull);
    store.close();
    CHECK_EQUAL(count_names(folder, ".dat"), 1U);
}

TEST_CASE(files_that_are_large_enough_are_closed_and_merged_by_who_comes_next) {
    const RecordFolder folder;
    {
        RunningStore store(folder, {64 * kMiB, 4000, true});
        for (std::uint64_t i = 0; i < 100; ++i) put(store.get(), i, 500);
        store.flush();
        for (std::uint64_t i = 0; i < 100; ++i) CHECK(has(*store, i, 500));
        CHECK(count_names(folder, ".dat") >= 14);
    }
    // Has the old files open, whatever happens to them, and merges none.
    RunningStore reader(folder, {64 * kMiB, kMiB, false});
    {
        RunningStore living(folder);
        CHECK(put(living.get(), 100, 500));
        living.flush();
        RunningStore next(folder);
        next.flush();
        CHECK_EQUAL(count_names(folder, ".dat"), kClosedFiles + 1);
        CHECK(all_are_found_anew(folder, 101, 500));
        for (std::uint64_t i = 0; i < 101; ++i) CHECK(has(*next, i, 500));
        for (std::uint64_t i = 0; i < 100; ++i) CHECK(has(*reader, i, 500));
        reader.flush();
        for (std::uint64_t i = 0; i < 101; ++i) CHECK(has(*reader, i, 500));
        CHECK(put(living.get(), 101, 500));
        living.flush();
        CHECK(all_are_found_anew(folder, 102, 500));
    }
    check_is_tidy(folder);
}

TEST_CASE(merging_leaves_files_of_living_writers_alone) {
    const RecordFolder folder;
    const HashKey key = store_key();
    std::vector<std::unique_ptr<RunningStore>> living;
    for (std::uint64_t i = 0; i < kClosedFiles + 3; ++i) {
        living.push_back(std::make_unique<RunningStore>(folder));
        CHECK(put(living.back()->get(), i, 100));
        living.back()->flush();
    }
    CHECK_EQUAL(merge_records(place_of(folder, key), kClosedFiles), 0);
    CHECK_EQUAL(merge_records(place_of(folder, key), 1), 0);
    CHECK_EQUAL(count_names(folder, ".dat"), kClosedFiles + 3);
    for (std::uint64_t i = 0; i < kClosedFiles + 3; ++i) {
        CHECK(put(living[i]->get(), 100 + i, 100));
        living[i]->flush();
    }
    living.clear();
    const auto after = make_store(folder);
    CHECK_EQUAL(after->open(), 0);
    for (std::uint64_t i = 0; i < kClosedFiles + 3; ++i) CHECK(has(*after, i, 100) && has(*after, 100 + i, 100));
}

TEST_CASE(merging_keeps_the_best_record_of_each_key) {
    const RecordFolder folder;
    const HashKey key = store_key();
    // Written where nobody knew of the others.
    const StorePlace place = place_of(folder, key);
    for (std::uint32_t file = 0; file < 12; ++file) {
        RecordAppender appender(place, kMiB);
        for (std::uint64_t number = 0; number < 20; ++number) {
            const auto rank = static_cast<std::uint32_t>((number + 5 * file) % 12);
            RecordPlace written;
            CHECK_EQUAL(appender.append(content_key(number), rank,
                                        view_of(testing::record_bytes(number + 1000 * rank, 30 + rank)), &written),
                        0);
        }
        std::shared_ptr<const OpenedRecords> opened;
        CHECK_EQUAL(appender.publish(&opened), 0);
        appender.close();
    }
    const auto check = [&folder] {
        const auto store = make_store(folder);
        CHECK_EQUAL(store->open(), 0);
        for (std::uint64_t number = 0; number < 20; ++number) CHECK(has(*store, number, 41, 11));
        return store->counters().records;
    };
    CHECK_EQUAL(check(), 12U * 20);
    CHECK_EQUAL(merge_records(place, 5), 0);
    CHECK_EQUAL(count_names(folder, ".dir"), 5U);
    CHECK_EQUAL(check(), 5U * 20);
    CHECK_EQUAL(merge_records(place, 1), 0);
    CHECK_EQUAL(count_names(folder, ".dir"), 1U);
    CHECK_EQUAL(check(), 20U);
    CHECK_EQUAL(merge_records(place, 1), 0);
    CHECK_EQUAL(count_names(folder, ".dir"), 1U);
    check_is_tidy(folder);
}

TEST_CASE(merging_without_room_loses_nothing_and_leaves_nothing) {
    const RecordFolder folder;
    const HashKey key = store_key();
    fill_files(folder, 12, 10, 9000);
    const std::uint64_t before = blocks_bytes(folder);
    merge_records(place_of(folder, key, before + 20000), kClosedFiles);
    CHECK(blocks_bytes(folder) <= before);
    CHECK(all_are_found_anew(folder, 120, 9000));
    check_is_tidy(folder);
    {
        RunningStore next(folder, {before + 200'000, kMiB, true});
        next.flush();
        CHECK(put(next.get(), 500, 100));  // there is room for it
        next.flush();
        CHECK_EQUAL(next->counters().write_error, 0);
    }
    CHECK(all_are_found_anew(folder, 120, 9000));
}

TEST_CASE(merging_takes_as_many_files_as_there_is_room_for) {
    const RecordFolder folder;
    const HashKey key = store_key();
    fill_files(folder, 12, 10, 9000);
    CHECK_EQUAL(merge_records(place_of(folder, key, blocks_bytes(folder) + 350'000), kClosedFiles), 0);
    CHECK(count_names(folder, ".dat") < 12 && count_names(folder, ".dat") > kClosedFiles);
    CHECK(all_are_found_anew(folder, 120, 9000));
    check_is_tidy(folder);
}

TEST_CASE(merging_that_is_interrupted_loses_nothing_and_leaves_nothing) {
    const HashKey key = store_key();
    for (const int error : {ENOSPC, EIO}) {
        bool was_reached = true;
        for (int n = 1; was_reached; ++n) {
            testing::current_variant() = "call " + std::to_string(n);
            const RecordFolder folder;
            fill_files(folder, 3, 2, 100);
            {
                HookedCalls calls(n, error);
                static_cast<void>(merge_records(place_of(folder, key), 1));
                was_reached = calls.was_reached();
            }
            const bool was_read = was_reached;  // of a record that cannot be read nothing is left
            const auto store = make_store(folder);
            CHECK_EQUAL(store->open(), 0);
            std::uint64_t num_found = 0;
            for (std::uint64_t i = 0; i < 6; ++i) num_found += has(*store, i, 100);
            CHECK(num_found == 6 || (was_read && num_found == 5));
            RunningStore next(folder);
            next.close();
            check_is_tidy(folder);
        }
    }
    testing::current_variant() = "";
    bool has_failed = true;
    for (std::int64_t n = 1; has_failed; ++n) {
        testing::current_variant() = "allocation " + std::to_string(n);
        const RecordFolder folder;
        fill_files(folder, 3, 2, 100);
        try {
            const FailingAllocation failing(n, false);
            static_cast<void>(merge_records(place_of(folder, key), 1));
        } catch (const std::bad_alloc&) {
        }
        has_failed = FailingAllocation::has_failed();
        CHECK(all_are_found_anew(folder, 6, 100));
        check_is_tidy(folder);
    }
    testing::current_variant() = "";
}

TEST_CASE(what_a_killed_writer_leaves_is_removed_and_cut) {
    for (const RecordKind kind : kKinds) {
        for (const bool has_published : {false, true}) {
            const RecordFolder folder;
            const pid_t child = fork();
            if (child == 0) {
                RunningStore store(folder, of_kind(kind));
                for (std::uint64_t i = 0; i < 10; ++i) put(store.get(), i, 5000);
                if (has_published) store.flush();
                while (blocks_bytes(folder) < kMiB) ::usleep(1000);
                put(store.get(), 100, 100);
                ::kill(::getpid(), SIGKILL);
            }
            int status = 0;
            CHECK(::waitpid(child, &status, 0) == child && WIFSIGNALED(status));
            CHECK(blocks_bytes(folder) >= kMiB);
            {
                RunningStore next(folder, of_kind(kind));
                next.flush();
                for (std::uint64_t i = 0; i < 10; ++i) CHECK(has(*next, i, 5000) == has_published);
                CHECK_EQUAL(next->counters().damaged, 0U);
            }
            CHECK_EQUAL(count_names(folder, ".dat"), has_published ? 1U : 0U);
            check_is_tidy(folder);
        }
    }
}

TEST_CASE(remains_of_a_living_writer_stay) {
    const RecordFolder folder;
    RunningStore living(folder);
    for (std::uint64_t i = 0; i < 10; ++i) put(living.get(), i, 5000);
    while (count_names(folder, ".dat") == 0) ::usleep(1000);
    {
        RunningStore next(folder);
        next.flush();
    }
    CHECK_EQUAL(count_names(folder, ".dat"), 1U);
    living.flush();
    CHECK(all_are_found_anew(folder, 10, 5000));
    CHECK_EQUAL(living->counters().write_error, 0);
}

TEST_CASE(a_folder_that_is_removed_while_it_is_used_ends_keeping_alone) {
    for (const bool was_filled : {false, true}) {
        const RecordFolder folder;
        RunningStore store(folder);
        if (was_filled) {
            put(store.get(), 1, 100);
            store.flush();
        }
        for (const std::string& name : folder.names()) ::unlink(folder.path(name).c_str());
        CHECK_EQUAL(::rmdir(folder.path().c_str()), 0);
        put(store.get(), 2, 100);
        store.flush();
        CHECK_EQUAL(store->counters().write_error, ENOENT);
        CHECK(!put(store.get(), 3, 100));
        store->begin_epoch();
        CHECK(!put(store.get(), 4, 100));
        store.flush();
        store.close();
        CHECK(!was_filled || has(*store, 1, 100) || found(*store, 1).empty());
        CHECK_EQUAL(store->counters().damaged, 0U);
    }
}

TEST_CASE(a_store_that_may_not_write_finds_and_changes_nothing) {
    const RecordFolder folder;
    fill_files(folder, 12, 2, 100);
    folder.write("index-0123456789abcdef.dat", "remains");
    const std::vector<std::string> before = folder.names();
    RunningStore store(folder, {64 * kMiB, kMiB, false});
    CHECK(!put(store.get(), 100, 100));
    store->begin_epoch();
    CHECK(!put(store.get(), 100, 100));
    store.flush();
    for (std::uint64_t i = 0; i < 24; ++i) CHECK(has(*store, i, 100));
    store.close();
    CHECK(folder.names() == before);
}

TEST_CASE(each_call_of_the_system_may_fail_once_and_no_record_is_wrong) {
    // What differs between errors is how they are told, and between kinds which files are merged.
    for (const auto& [kind, error, step] : {std::make_tuple(RecordKind::kIndex, EIO, 1),
                                            {RecordKind::kIndex, ENOSPC, 3},
                                            {RecordKind::kIndex, EMFILE, 3},
                                            {RecordKind::kIndex, HookedCalls::kMovesOneByte, 3},
                                            {RecordKind::kCoefficients, EIO, 3}}) {
        bool was_reached = true;
        for (int n = 1; was_reached; n += step) {
            testing::current_variant() =
                record_kind_name(kind) + std::string(", call ") + std::to_string(n) + ", " + std::to_string(error);
            const RecordFolder folder;
            fill_files(folder, 1, 2, 100, 0, kind);
            std::atomic<bool> is_reached{false};
            std::vector<std::string> names;
            {
                const int told = error;  // a name that a lambda may have
                RunningStore store(folder, of_kind(kind, 2000), [&](RecordStore* opened) {
                    HookedCalls calls(n, told);
                    opened->run();
                    is_reached.store(calls.was_reached());
                    names = calls.names();
                });
                for (std::uint64_t i = 100; i < 104; ++i) put(store.get(), i, 500);
                store.flush();
                store->begin_epoch();
                for (std::uint64_t i = 104; i < 106; ++i) put(store.get(), i, 500);
                store.flush();
                const auto is_right = [&](std::uint64_t number, std::size_t size) {
                    return found(*store, number).empty() || has(*store, number, size);
                };
                for (std::uint64_t i = 0; i < 2; ++i) CHECK(is_right(i, 100));
                for (std::uint64_t i = 100; i < 106; ++i) CHECK(is_right(i, 500));
                CHECK_EQUAL(store->counters().damaged, 0U);
            }
            was_reached = is_reached.load();
            testing::current_variant() += ", " + (was_reached ? names[static_cast<std::size_t>(n) - 1] : "");
            RunningStore next(folder, of_kind(kind));
            next.close();
            for (std::uint64_t i = 0; i < 106; ++i) {
                const std::size_t size = i < 100 ? 100 : 500;
                CHECK(found(*next, i).empty() || has(*next, i, size));
                if (error != EIO && i < 2) CHECK(has(*next, i, 100));
            }
            CHECK_EQUAL(next->counters().damaged, 0U);
            check_is_tidy(folder);
        }
    }
    testing::current_variant() = "";
}

TEST_CASE(a_process_that_is_killed_at_any_call_of_the_system_leaves_nothing_wrong) {
    const HashKey key = store_key();
    for (const auto& [kind, is_merging] :
         {std::make_pair(RecordKind::kIndex, false), {RecordKind::kIndex, true}, {RecordKind::kCoefficients, false}}) {
        for (int n = 1;; n += kind == RecordKind::kIndex ? 1 : 3) {
            testing::current_variant() =
                record_kind_name(kind) + std::string(is_merging ? ", merging, call " : ", call ") + std::to_string(n);
            const RecordFolder folder;
            fill_files(folder, 3, 1, 100, 0, kind);
            const auto kill_itself = [] { return ::kill(::getpid(), SIGKILL); };
            const pid_t child = fork();
            if (child == 0) {
                if (is_merging) {
                    HookedCalls calls(n, kill_itself);
                    _exit(merge_records(place_of(folder, key), 1));
                }
                RunningStore store(folder, of_kind(kind, 2000), [&](RecordStore* opened) {
                    HookedCalls calls(n, kill_itself);
                    opened->run();
                });
                for (std::uint64_t i = 100; i < 105; ++i) put(store.get(), i, 500);
                store.flush();
                store.close();
                _exit(0);
            }
            int status = 0;
            CHECK(::waitpid(child, &status, 0) == child);
            CHECK(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
            RunningStore next(folder, of_kind(kind));
            next.flush();
            next.close();
            for (std::uint64_t i = 0; i < 3; ++i) CHECK(has(*next, i, 100));
            for (std::uint64_t i = 100; i < 105; ++i) CHECK(found(*next, i).empty() || has(*next, i, 500));
            CHECK_EQUAL(next->counters().damaged, 0U);
            CHECK_EQUAL(next->counters().write_error, 0);
            check_is_tidy(folder);
            if (!WIFSIGNALED(status)) break;
        }
    }
    testing::current_variant() = "";
}

TEST_CASE(each_allocation_may_fail_once_and_no_record_is_wrong) {
    bool has_failed = true;
    for (std::int64_t n = 1; has_failed; ++n) {
        testing::current_variant() = "allocation " + std::to_string(n);
        const RecordFolder folder;
        fill_files(folder, 2, 1, 100);
        const std::vector<RecordBytes> records(12, testing::record_bytes(1, 500));
        const auto store = make_store(folder, {64 * kMiB, 2000, true});
        std::atomic<bool> is_opened{false};
        std::thread thread([&] {
            while (!is_opened.load()) std::this_thread::yield();
            store->run();
        });
        {
            const FailingAllocation failing(n, false);
            try {
                CHECK_EQUAL(store->open(), 0);
            } catch (const std::bad_alloc&) {
            }
            is_opened.store(true);
            for (std::uint64_t i = 0; i < 12; ++i) store->put(content_key(100 + i), 0, view_of(records[i]));
            // Where there is no memory for a thread that waits, what is done is looked at later.
            static_cast<void>(store->flush(std::chrono::seconds(20)));
            has_failed = FailingAllocation::has_failed();
        }
        for (std::uint64_t i = 0; i < 12; ++i) {
            const RecordBytes now = found(*store, 100 + i);
            CHECK(now.empty() || now == records[i]);
        }
        CHECK_EQUAL(store->counters().damaged, 0U);
        store->close();
        thread.join();
        RunningStore next(folder);
        next.close();
        for (std::uint64_t i = 0; i < 2; ++i) CHECK(has(*next, i, 100));
        check_is_tidy(folder);
    }
    testing::current_variant() = "";
}

TEST_CASE(a_record_that_was_written_is_found_where_publishing_has_no_memory) {
    bool has_failed = true;
    for (std::int64_t n = 1; has_failed; ++n) {
        testing::current_variant() = "allocation " + std::to_string(n);
        const RecordFolder folder;
        RunningStore store(folder);
        put(store.get(), 1, 20);
        store->begin_epoch();  // wakes its thread
        while (store->counters().bytes_written == 0) ::usleep(100);
        {
            const FailingAllocation failing(n, false);
            store.flush();
            has_failed = FailingAllocation::has_failed();
        }
        CHECK(has(*store, 1, 20));
    }
    testing::current_variant() = "";
}

TEST_CASE(what_could_not_be_published_is_not_looked_for) {
    for (const RecordKind kind : kKinds) {
        for (const bool has_published : {false, true}) {
            const RecordFolder folder;
            RunningStore store(folder, of_kind(kind));
            if (has_published) {
                put(store.get(), 1, 5000);
                store.flush();
            }
            for (std::uint64_t i = 2; i < 5; ++i) put(store.get(), i, 5000);
            while (store->counters().bytes_written < (has_published ? 4 : 3) * 5000) ::usleep(1000);
            const std::string data = folder.names()[0];
            CHECK_EQUAL(::mkdir(folder.path(data.substr(0, data.size() - 4) + ".tmp").c_str(), 0700), 0);
            store.flush();
            CHECK_EQUAL(store->counters().write_error, EISDIR);
            for (std::uint64_t i = 2; i < 5; ++i) CHECK(found(*store, i).empty());
            CHECK_EQUAL(has(*store, 1, 5000), has_published);
            CHECK(!put(store.get(), 6, 100));
            CHECK_EQUAL(store->counters().damaged, 0U);
            CHECK_EQUAL(count_names(folder, ".dat"), has_published ? 1U : 0U);
        }
    }
}

TEST_CASE(a_directory_is_published_when_what_it_names_is_on_disk) {
    const RecordFolder folder;
    std::vector<std::string> names;
    {
        RunningStore store(folder, {}, [&names](RecordStore* opened) {
            const HookedCalls calls;
            opened->run();
            names = calls.names();
        });
        put(store.get(), 1, 100);
        store.flush();
        put(store.get(), 2, 100);
        store.flush();
    }
    int published = 0;
    bool is_written = false;  // since the last sync of the data
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (names[i] == "renameat") {
            ++published;
            CHECK(!is_written);
            // The temporary file is on disk before it gets its name, and the folder after.
            CHECK(i >= 1 && names[i - 1] == "fsync");
            CHECK(i + 1 < names.size() && names[i + 1] == "fsync");
        }
        if (names[i] == "fdatasync") is_written = false;
        // The one before an fsync is the directory's own.
        if (names[i] == "pwritev" && (i + 1 >= names.size() || names[i + 1] != "fsync")) is_written = true;
    }
    CHECK_EQUAL(published, 2);
}

TEST_CASE(a_forked_child_can_open_stores_while_the_parents_threads_look_up) {
    const RecordFolder folder;
    RunningStore store(folder);
    std::atomic<bool> is_over{false};
    std::thread reader([&] {
        const ContentKey key = content_key(1);
        while (!is_over.load()) static_cast<void>(store->find(key, {}));
    });
    for (int i = 0; i < 60; ++i) {
        const int status = in_forked_child([&folder] {
            for (int j = 0; j < 64; ++j) {
                const auto own = make_store(folder);
                if (own->open() != 0 || !found(*own, 1).empty()) return false;
            }
            return true;
        });
        CHECK_EQUAL(status, 0);
        if (status != 0) break;
    }
    is_over.store(true);
    reader.join();
}

TEST_CASE(a_writer_that_ended_is_not_kept_alive_by_a_child) {
    const RecordFolder folder;
    int from_child[2];
    int to_child[2];
    CHECK(::pipe(from_child) == 0 && ::pipe(to_child) == 0);
    const pid_t parent = fork();
    if (parent == 0) {
        RunningStore store(folder);
        put(store.get(), 1, 100);
        while (store->counters().bytes_written == 0) ::usleep(1000);
        char byte = 0;
        if (fork() == 0) {
            store->close_after_fork();
            ::close(to_child[1]);
            if (::write(from_child[1], &byte, 1) == 1) static_cast<void>(::read(to_child[0], &byte, 1));  // to its end
            _exit(0);
        }
        ::pause();
    }
    char byte = 0;
    CHECK(::read(from_child[0], &byte, 1) == 1);
    ::kill(parent, SIGKILL);
    int status = 0;
    CHECK(::waitpid(parent, &status, 0) == parent);
    RunningStore next(folder);
    next.flush();
    CHECK_EQUAL(count_names(folder, ".dat"), 0U);
    for (const int end : {from_child[0], from_child[1], to_child[0], to_child[1]}) ::close(end);
}

TEST_CASE(what_a_process_knows_of_a_record_takes_at_most_24_bytes) {
    for (const RecordKind kind : kKinds) {
        const RecordFolder folder;
        const std::uint64_t count = kind == RecordKind::kIndex ? 100'000 : 20'000;
        fill_files(folder, 2, count / 2, 10, 0, kind);
        const auto store = make_store(folder, of_kind(kind));
        CHECK_EQUAL(store->open(), 0);
        const StoreCounters counters = store->counters();
        CHECK_EQUAL(counters.records, count);
        CHECK(counters.memory_bytes >= 20 * counters.records);
        CHECK(counters.memory_bytes <= 24 * counters.records);
        for (std::uint64_t i = 0; i < count; i += 777) CHECK(has(*store, i, 10));
    }
}

TEST_CASE(threads_keep_and_find_while_stores_publish_and_merge) {
    const RecordFolder folder;
    fill_files(folder, 12, 3, 100, 10'000);
    std::atomic<int> wrong{0};
    {
        RunningStore store(folder, {64 * kMiB, 3000, true});
        std::vector<std::thread> threads;
        for (std::uint64_t thread = 0; thread < 3; ++thread) {
            threads.emplace_back([&store, &wrong, thread] {
                for (std::uint64_t i = 0; i < 120; ++i) {
                    const std::uint64_t number = 1000 * thread + i;
                    if (!put(store.get(), number, 100)) ++wrong;
                    if (!has(*store, number, 100)) ++wrong;
                    const RecordBytes other = found(*store, i);
                    if (!other.empty() && other != testing::record_bytes(i, 100)) ++wrong;
                    if (!has(*store, 10'000 + i % 36, 100)) ++wrong;
                    if (i % 20 == 0) store->end_epoch();
                    static_cast<void>(store->counters());
                }
            });
        }
        for (int i = 0; i < 5; ++i) {
            RunningStore other(folder, {64 * kMiB, 3000, true});
            put(other.get(), 20'000 + static_cast<std::uint64_t>(i), 100);
            other.flush();
            store.flush();
        }
        for (std::thread& thread : threads) thread.join();
        store.flush();
        CHECK_EQUAL(store->counters().damaged, 0U);
    }
    CHECK_EQUAL(wrong.load(), 0);
    RunningStore next(folder);
    next.flush();
    for (std::uint64_t thread = 0; thread < 3; ++thread) {
        for (std::uint64_t i = 0; i < 120; ++i) CHECK(has(*next, 1000 * thread + i, 100));
    }
}

}  // namespace fastload

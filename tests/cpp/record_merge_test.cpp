#include "engine/cache/record_merge.h"

#include <cerrno>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "check.h"
#include "failing_allocation.h"
#include "hooked_calls.h"
#include "rounds.h"
#include "running_store.h"

namespace fastload {

using testing::all_are_found_anew;
using testing::blocks_bytes;
using testing::check_is_tidy;
using testing::content_key;
using testing::count_names;
using testing::FailingAllocation;
using testing::fill_files;
using testing::has;
using testing::HookedCalls;
using testing::kClosedFiles;
using testing::kMiB;
using testing::make_store;
using testing::place_of;
using testing::put;
using testing::RecordFolder;
using testing::RunningStore;
using testing::store_key;
using testing::view_of;

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
        for (int n = 1; was_reached; n += testing::stride(1)) {
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

}  // namespace fastload

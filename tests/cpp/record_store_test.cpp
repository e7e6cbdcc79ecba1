#include "engine/cache/record_store.h"

#include <unistd.h>

#include <atomic>
#include <thread>

#include "check.h"
#include "forked_child.h"
#include "running_store.h"

namespace fastload {

using namespace testing;

TEST_CASE(a_record_is_found_before_and_after_it_is_published) {
    const RecordFolder folder;
    RunningStore store(folder);
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

TEST_CASE(of_a_key_the_better_record_stays_and_of_equal_ones_the_first) {
    const RecordFolder folder;
    for (const bool is_flushed : {false, true}) {
        RunningStore store(folder);
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
        RunningStore other(folder);
        CHECK(has(*other, number, 60, 3));
        CHECK(put(other.get(), number, 70, 3));  // no better
        CHECK(put(other.get(), number, 70, 2));
        other.close();
        CHECK_EQUAL(other->counters().bytes_written, 0U);
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

TEST_CASE(a_writer_goes_on_with_a_file_whose_writer_has_ended) {
    const RecordFolder folder;
    RunningStore reader(folder, {64 * kMiB, 0, false});
    for (std::uint64_t run = 0; run < 5; ++run) {
        RunningStore one(folder);
        RunningStore other(folder);
        CHECK(put(one.get(), 2 * run, 500));
        CHECK(put(other.get(), 2 * run + 1, 500));
        one.flush();
        other.flush();
        reader.flush();
        for (std::uint64_t i = 0; i < 2 * run + 2; ++i) CHECK(has(*reader, i, 500));
        CHECK_EQUAL(count_names(folder, ".dat"), 2U);
    }
    CHECK(all_are_found_anew(folder, 10, 500));
    check_is_tidy(folder);
}

TEST_CASE(a_file_that_is_full_damaged_or_too_short_is_left_as_it_is) {
    const RecordFolder folder;
    fill_files(folder, 3, 4, 500);
    const std::vector<std::string> names = folder.names();  // three pairs
    folder.write(names[1], testing::with_bytes(folder.read(names[1]), 100, "x"));
    CHECK_EQUAL(::truncate(folder.path(names[2]).c_str(), 1000), 0);
    std::vector<std::string> before;
    for (const std::string& name : names) before.push_back(folder.read(name));
    RunningStore store(folder, {64 * kMiB, 1500, true});
    CHECK(put(store.get(), 100, 500));
    store.close();
    CHECK_EQUAL(count_names(folder, ".dat"), 4U);
    for (std::size_t i = 0; i < names.size(); ++i) CHECK(folder.read(names[i]) == before[i]);
}

TEST_CASE(files_of_two_pairs_do_not_go_together) {
    const RecordFolder folder;
    fill_files(folder, 2, 3, 500);
    const std::vector<std::string> names = folder.names();
    folder.write(names[1], folder.read(names[3]));  // .dir
    const auto store = make_store(folder);
    CHECK_EQUAL(store->open(), 0);
    CHECK_EQUAL(store->counters().records, 3U);
}

TEST_CASE(files_that_are_full_are_closed) {
    const RecordFolder folder;
    RunningStore store(folder, {64 * kMiB, 4000, true});
    for (std::uint64_t i = 0; i < 30; ++i) {
        put(store.get(), i, 500);
        if (i % 4 == 3) store.flush();
    }
    store.flush();
    for (std::uint64_t i = 0; i < 30; ++i) CHECK(has(*store, i, 500));
    CHECK_EQUAL(count_names(folder, ".dat"), 4U);  // eight records each
    CHECK(all_are_found_anew(folder, 30, 500));
}

TEST_CASE(a_record_that_was_found_once_is_found_ever_after) {
    const RecordFolder folder;
    fill_files(folder, 8, 1, 50, 5000);
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
            CHECK(std::max(most.load(), blocks_bytes(folder)) > kMiB / 2);
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
    std::uint64_t num_found = 0;
    for (std::uint64_t i = 0; i < 100; ++i) num_found += has(*store, i, 20000);
    CHECK(num_found > 40);
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

TEST_CASE(what_a_process_knows_of_a_record_takes_at_most_24_bytes) {
    const RecordFolder folder;
    const std::uint64_t count = 100'000;
    fill_files(folder, 2, count / 2, 10);
    const auto store = make_store(folder);
    CHECK_EQUAL(store->open(), 0);
    const StoreCounters counters = store->counters();
    CHECK_EQUAL(counters.records, count);
    CHECK(counters.memory_bytes >= 20 * counters.records);
    CHECK(counters.memory_bytes <= 24 * counters.records);
    for (std::uint64_t i = 0; i < count; i += 777) CHECK(has(*store, i, 10));
}

TEST_CASE(threads_keep_and_find_while_stores_publish) {
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

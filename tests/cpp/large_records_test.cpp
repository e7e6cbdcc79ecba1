// A store of large records that are read in parts.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "check.h"
#include "engine/cache/store_report.h"
#include "failing_allocation.h"
#include "hooked_calls.h"
#include "large_records.h"
#include "rounds.h"

namespace fastload {
namespace {

using testing::content_key;
using testing::count_names;
using testing::has_large;
using testing::HookedCalls;
using testing::kBlockBytes;
using testing::kMiB;
using testing::kUsualBytes;
using testing::large_record;
using testing::LargeRead;
using testing::make_store;
using testing::num_allocations;
using testing::of_coefficients;
using testing::place_of;
using testing::put_large;
using testing::read_large;
using testing::RecordBytes;
using testing::RecordFolder;
using testing::RunningStore;
using testing::store_key;
using testing::view_of;

constexpr std::uint32_t kLargest = std::uint32_t{32} << 20;
const ContentKey kAnotherKey = content_key(1'000'000'000);

// Whether each part that begins or ends near one of `places` is as in `expected`.
bool is_same_in_parts(const RecordStore& store, std::uint64_t number, const RecordBytes& expected,
                      const std::vector<std::size_t>& places) {
    for (const std::size_t begin : places) {
        for (const std::size_t end : places) {
            if (end < begin) continue;
            StoredRecord record;
            if (!store.find_record(content_key(number), &record) || record.size() != expected.size()) return false;
            RecordBytes part(end - begin);
            if (!record.read(begin, {part.data(), part.size()})) return false;
            if (!std::equal(part.begin(), part.end(), expected.begin() + static_cast<std::ptrdiff_t>(begin))) {
                return false;
            }
        }
    }
    return true;
}

void await_written(const RecordStore& store, std::uint64_t bytes) {
    while (store.counters().bytes_written < bytes) ::usleep(200);
}

}  // namespace

TEST_CASE(store_would_keep_a_record_of_a_higher_rank_alone_and_none_that_was_wrong) {
    const RecordFolder folder;
    RunningStore store(folder, of_coefficients());
    CHECK(store->would_keep(content_key(1), 1, 1000));
    CHECK(put_large(store.get(), 1, kUsualBytes, 5));
    CHECK(store->flush(std::chrono::seconds(20)));
    CHECK(!store->would_keep(content_key(1), 5, 1000));
    CHECK(store->would_keep(content_key(1), 6, 1000));
    store->remove(content_key(1));
    CHECK(!store->would_keep(content_key(1), 6, 1000));
}

TEST_CASE(a_large_record_is_read_in_parts_before_and_after_it_is_published) {
    const RecordFolder folder;
    const auto expected = large_record(1, kUsualBytes);
    const std::vector<std::size_t> places = {0, 1, kBlockBytes, kUsualBytes / 2 + 3, kUsualBytes - 1, kUsualBytes};
    {
        const auto waiting = make_store(folder, of_coefficients());
        CHECK_EQUAL(waiting->open(), 0);
        CHECK(put_large(waiting.get(), 1, kUsualBytes));
        CHECK(is_same_in_parts(*waiting, 1, expected, places));
    }
    CHECK(folder.names().empty());
    RunningStore store(folder, of_coefficients());
    for (std::uint64_t i = 1; i < 20; ++i) CHECK(put_large(store.get(), i, kUsualBytes));
    await_written(*store, 19 * kUsualBytes);
    CHECK_EQUAL(count_names(folder, ".dir"), 0U);
    CHECK(is_same_in_parts(*store, 1, expected, places));
    store.flush();
    CHECK(is_same_in_parts(*store, 1, expected, places));
    const auto other = make_store(folder, of_coefficients());
    CHECK_EQUAL(other->open(), 0);
    CHECK(is_same_in_parts(*other, 1, expected, places));
    for (std::uint64_t i = 1; i < 20; ++i) CHECK(has_large(*other, i));
    CHECK(read_large(*other, 20) == LargeRead::kAbsent);
    CHECK_EQUAL(other->counters().damaged, 0U);
    CHECK(folder.names()[0].substr(0, 13) == "coefficients-");
}

TEST_CASE(a_part_that_is_not_inside_of_its_record_is_not_read_and_no_damage) {
    const RecordFolder folder;
    RunningStore store(folder, of_coefficients());
    for (const bool is_published : {false, true}) {
        CHECK(put_large(store.get(), 1, kBlockBytes));
        if (is_published) store.flush();
        StoredRecord record;
        CHECK(store->find_record(content_key(1), &record));
        RecordBytes buffer(kBlockBytes + 1);
        CHECK(!record.read(0, {buffer.data(), buffer.size()}));
        CHECK(!record.read(1, {buffer.data(), kBlockBytes}));
        CHECK(!record.read(kBlockBytes + 1, {}));
        CHECK(!record.read(~std::uint64_t{0}, {buffer.data(), 1}));
        CHECK(record.read(kBlockBytes, {}));
        CHECK(record.read(0, {buffer.data(), kBlockBytes}));
    }
    StoredRecord none;
    CHECK_EQUAL(none.size(), 0U);
    CHECK(!none.read(0, {}));
    CHECK_EQUAL(store->counters().damaged, 0U);
}

TEST_CASE(a_record_that_was_found_is_read_when_its_file_and_its_store_have_something_else) {
    const RecordFolder folder;
    RunningStore store(folder, of_coefficients());
    CHECK(put_large(store.get(), 1, kUsualBytes, 1));
    StoredRecord waiting;
    CHECK(store->find_record(content_key(1), &waiting));
    store.flush();
    StoredRecord published;
    CHECK(store->find_record(content_key(1), &published));
    CHECK(put_large(store.get(), 1, kUsualBytes, 2));
    store.flush();
    for (const std::string& name : folder.names()) ::unlink(folder.path(name).c_str());
    store.flush();
    CHECK(read_large(*store, 1, 2) == LargeRead::kAbsent);
    for (StoredRecord* record : {&waiting, &published}) {
        RecordBytes all(kUsualBytes);
        CHECK(record->read(0, {all.data(), all.size()}));
        CHECK(all == large_record(1, kUsualBytes, 1));
    }
}

TEST_CASE(finding_a_record_makes_no_allocation_and_no_call_of_the_system) {
    const RecordFolder folder;
    RunningStore store(folder, of_coefficients());
    for (std::uint64_t i = 0; i < 4; ++i) CHECK(put_large(store.get(), i, kBlockBytes));
    store.flush();
    store.close();
    CHECK(put_large(store.get(), 5, kUsualBytes));  // waits for ever
    const HookedCalls calls;
    const std::int64_t before = num_allocations();
    RecordBytes::value_type head[100];
    for (const std::uint64_t number : {0U, 1U, 2U, 3U, 5U, 6U}) {
        StoredRecord record;
        if (!store->find_record(content_key(number), &record)) continue;
        CHECK(record.read(0, {head, sizeof head}));
        CHECK(record.read(50, {head, sizeof head}));
    }
    CHECK_EQUAL(num_allocations(), before);
    // Two parts of each; the head of a record comes with the first of them.
    CHECK(calls.names() == std::vector<std::string>(8, "preadv"));
}

TEST_CASE(records_of_any_size_up_to_the_largest_are_kept_and_no_larger_ones) {
    const RecordFolder folder;
    RunningStore store(folder, of_coefficients(256 * kMiB));
    const std::vector<std::size_t> sizes = {1, 100, 10'000, kLargest - 1, kLargest};
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        CHECK(store->put(content_key(i), 0, view_of(RecordBytes(sizes[i], static_cast<std::uint8_t>(i + 1)))));
        store.flush();
        StoredRecord record;
        CHECK(store->find_record(content_key(i), &record));
        CHECK_EQUAL(record.size(), sizes[i]);
        std::uint8_t last = 0;
        CHECK(record.read(sizes[i] - 1, {&last, 1}));
        CHECK_EQUAL(last, i + 1);
    }
    const RecordBytes too_large(kLargest + std::size_t{1});
    CHECK(!store->put(content_key(9), 0, view_of(too_large)));
    CHECK(!store->would_keep(kAnotherKey, 1, too_large.size()));
    CHECK(store->would_keep(kAnotherKey, 1, kLargest));
    CHECK(!store->put(content_key(9), 0, {}));
    CHECK_EQUAL(store->counters().write_error, 0);
}

TEST_CASE(so_many_bytes_wait_and_what_comes_then_is_not_kept) {
    const RecordFolder folder;
    const auto store = make_store(folder, of_coefficients(512 * kMiB));
    CHECK_EQUAL(store->open(), 0);
    const RecordBytes record = large_record(0, 4 * kMiB);
    for (std::uint64_t i = 0; i < 15; ++i) CHECK(store->put(content_key(i), 0, view_of(record)));
    CHECK(store->would_keep(kAnotherKey, 1, 4 * kMiB) && !store->would_keep(kAnotherKey, 1, 4 * kMiB + 1));
    CHECK(!store->put(content_key(20), 0, view_of(large_record(0, 5 * kMiB))));
    CHECK(store->put(content_key(20), 0, view_of(record)));
    CHECK(!store->put(content_key(21), 0, view_of(large_record(0, kBlockBytes))));
    CHECK(store->put(content_key(20), 0, view_of(record)));  // needs no room: it is here
    std::thread writer([&store] { store->run(); });
    CHECK(store->flush(std::chrono::seconds(20)));
    CHECK(store->would_keep(kAnotherKey, 1, kLargest));
    CHECK(store->put(content_key(21), 0, view_of(record)));
    store->close();
    writer.join();
    CHECK_EQUAL(store->counters().write_error, 0);
    CHECK_EQUAL(store->counters().records, 17U);
}

TEST_CASE(threads_that_keep_at_once_do_not_pass_the_bound_together) {
    const RecordFolder folder;
    const auto store = make_store(folder, of_coefficients(512 * kMiB));
    CHECK_EQUAL(store->open(), 0);
    const RecordBytes record = large_record(0, 20 * kMiB);
    constexpr int kThreads = 8;
    std::atomic<int> num_ready{0};
    std::atomic<int> num_kept{0};
    std::vector<std::thread> threads;
    for (std::uint64_t thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back([&, thread] {
            ++num_ready;
            while (num_ready.load() < kThreads) std::this_thread::yield();
            num_kept += store->put(content_key(thread), 0, view_of(record));
        });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(num_kept.load() >= 1 && num_kept.load() <= 3);
    // What was refused takes no room.
    while (store->would_keep(kAnotherKey, 1, 20 * kMiB)) {
        CHECK(store->put(content_key(100 + static_cast<std::uint64_t>(num_kept++)), 0, view_of(record)));
    }
    CHECK_EQUAL(num_kept.load(), 3);
}

TEST_CASE(records_that_could_not_be_written_give_back_their_place_in_the_queue) {
    const RecordFolder folder;
    const auto store = make_store(folder, of_coefficients(4 * kMiB));
    CHECK_EQUAL(store->open(), 0);
    for (std::uint64_t i = 0; i < 64; ++i) CHECK(put_large(store.get(), i, kMiB));
    CHECK(!store->would_keep(kAnotherKey, 1, 1));
    std::thread writer([&store] { store->run(); });
    CHECK(store->flush(std::chrono::seconds(20)));
    CHECK_EQUAL(store->counters().write_error, kStoreIsFull);
    CHECK(!store->would_keep(kAnotherKey, 1, 1));
    std::uint64_t num_found = 0;
    for (std::uint64_t i = 0; i < 64; ++i) num_found += has_large(*store, i);
    CHECK(num_found >= 1 && num_found < 4);
    store->begin_epoch();
    CHECK(store->would_keep(kAnotherKey, 1, kLargest));
    store->close();
    writer.join();
}

TEST_CASE(who_keeps_much_wakes_the_thread_that_writes) {
    const RecordFolder folder;
    RunningStore store(folder, of_coefficients());
    using Clock = std::chrono::steady_clock;
    Clock::duration shortest = std::chrono::hours(1);
    for (std::uint64_t i = 0; i < 5; ++i) {
        store.flush();
        const std::uint64_t before = store->counters().bytes_written;
        const Clock::time_point begin = Clock::now();
        CHECK(put_large(store.get(), i, 2 * kMiB));
        await_written(*store, before + 1);
        shortest = std::min(shortest, Clock::now() - begin);
    }
    CHECK(shortest < std::chrono::milliseconds(300));  // by itself it comes after 500
}

TEST_CASE(what_is_written_is_pushed_out_each_eight_mebibytes) {
    const RecordFolder folder;
    std::vector<std::string> names;
    {
        RunningStore store(folder, of_coefficients(), [&names](RecordStore* opened) {
            const HookedCalls calls;
            opened->run();
            names = calls.names();
        });
        for (std::uint64_t i = 0; i < 20; ++i) CHECK(put_large(store.get(), i, kMiB));
    }
    CHECK_EQUAL(std::count(names.begin(), names.end(), "pwritev"), 22);  // and the heads of both files
    CHECK_EQUAL(std::count(names.begin(), names.end(), "sync_file_range"), 2);
}

TEST_CASE(a_file_that_is_large_enough_is_closed_and_never_merged) {
    const RecordFolder folder;
    constexpr std::uint64_t kRecords = 40;
    {
        RunningStore store(folder, of_coefficients(64 * kMiB, 3 * kUsualBytes));
        for (std::uint64_t i = 0; i < kRecords; ++i) CHECK(put_large(store.get(), i, kUsualBytes));
        store.flush();
        for (std::uint64_t i = 0; i < kRecords; ++i) CHECK(has_large(*store, i));
    }
    CHECK_EQUAL(count_names(folder, ".dat"), kRecords / 2);
    const std::vector<std::string> before = folder.names();
    RunningStore next(folder, of_coefficients());
    next.flush();
    CHECK(folder.names() == before);
    for (std::uint64_t i = 0; i < kRecords; ++i) CHECK(has_large(*next, i));
}

TEST_CASE(files_of_coefficients_grow_with_the_store) {
    CHECK_EQUAL(coefficient_rules(0).max_file_bytes, std::uint64_t{1} << 30);
    CHECK_EQUAL(coefficient_rules(std::uint64_t{128} << 30).max_file_bytes, std::uint64_t{1} << 30);
    CHECK_EQUAL(coefficient_rules(std::uint64_t{1} << 40).max_file_bytes, std::uint64_t{8} << 30);
    CHECK_EQUAL(index_rules().max_file_bytes, std::uint64_t{64} << 20);
}

TEST_CASE(the_record_of_the_higher_rank_is_found_wherever_it_is) {
    const RecordFolder folder;
    RunningStore mine(folder, of_coefficients());
    RunningStore theirs(folder, of_coefficients());
    CHECK(put_large(mine.get(), 1, kUsualBytes, 5));
    CHECK(put_large(theirs.get(), 1, kUsualBytes, 7));
    theirs.flush();
    const auto refresh = [](RunningStore* store) {
        store->get()->begin_epoch();
        while (store->get()->counters().records == 0) ::usleep(200);
    };
    refresh(&mine);
    CHECK(has_large(*mine, 1, 7));  // its own is published or not
    mine.flush();
    for (RunningStore* store : {&mine, &theirs}) {
        store->flush();
        CHECK(has_large(**store, 1, 7));
        CHECK(put_large(store->get(), 1, kUsualBytes, 6));  // loses
        CHECK(has_large(**store, 1, 7));
        store->flush();
        CHECK(has_large(**store, 1, 7));
    }
    CHECK(put_large(mine.get(), 1, kUsualBytes, 8));
    CHECK(has_large(*mine, 1, 8));
    mine.flush();
    theirs.flush();
    CHECK(has_large(*theirs, 1, 8));
    CHECK_EQUAL(mine->counters().damaged + theirs->counters().damaged, 0U);
}

TEST_CASE(parts_that_cannot_be_read_are_counted_and_too_many_in_a_row_end_reading) {
    const RecordFolder folder;
    RunningStore store(folder, of_coefficients());
    CHECK(put_large(store.get(), 1, kUsualBytes));
    store.flush();
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
    RunningStore store(folder, of_coefficients());
    CHECK(put_large(store.get(), 1, kUsualBytes));
    store.flush();
    const std::string name = folder.names()[0];
    const std::string good = folder.read(name);
    constexpr std::size_t kFileHeadBytes = 40;
    constexpr std::size_t kHeadBytes = 28;  // of which all but the rank is compared
    for (std::size_t i = 0; i < kHeadBytes; ++i) {
        folder.write(name,
                     testing::with_value(good, kFileHeadBytes + i, static_cast<char>(good[kFileHeadBytes + i] ^ 4)));
        for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{5000}}) {
            StoredRecord record;
            CHECK(store->find_record(content_key(1), &record));
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

// The store looks at the head of a record alone: what is wrong behind it the record's own checks tell.
TEST_CASE(of_damaged_records_right_bytes_are_read_or_such_as_their_own_checks_refuse) {
    const RecordFolder folder;
    constexpr std::uint64_t kRecords = 6;
    constexpr std::size_t kSize = 5 * kBlockBytes;
    {
        RunningStore store(folder, of_coefficients());
        for (std::uint64_t i = 0; i < kRecords; ++i) CHECK(put_large(store.get(), i, kSize));
    }
    std::string name = folder.names()[0];
    CHECK(name.substr(name.size() - 4) == ".dat");
    const std::string good = folder.read(name);
    std::array<std::size_t, 4> reads = {};
    for (std::uint64_t seed = 0; seed < testing::rounds(600); ++seed) {
        testing::current_variant() = "seed " + std::to_string(seed);
        std::mt19937_64 random(seed);
        folder.write(name, testing::damaged(good, &random));
        const auto store = make_store(folder, {kMiB, 0, false, RecordKind::kCoefficients});
        CHECK_EQUAL(store->open(), 0);
        for (std::uint64_t i = 0; i < kRecords; ++i) {
            const LargeRead read = read_large(*store, i);
            ++reads[static_cast<std::size_t>(read)];
            StoredRecord record;
            if (read != LargeRead::kRight || !store->find_record(content_key(i), &record)) continue;
            RecordBytes head(kBlockBytes);
            CHECK(record.read(0, {head.data(), head.size()}));
            CHECK(std::equal(head.begin(), head.end(), large_record(i, kSize).begin()));
        }
        CHECK(store->counters().damaged <= kRecords);
    }
    testing::current_variant() = "";
    for (const LargeRead read : {LargeRead::kUnread, LargeRead::kWrong, LargeRead::kRight}) {
        CHECK(reads[static_cast<std::size_t>(read)] > testing::rounds(100));
    }
}

// What somebody writes who has the key, and so can make all checks right.
TEST_CASE(a_place_that_is_larger_than_any_record_of_the_kind_is_none) {
    for (const RecordKind kind : {RecordKind::kIndex, RecordKind::kCoefficients}) {
        const RecordFolder folder;
        testing::fill_files(folder, 1, 2, 100, 0, kind);
        const HashKey key = store_key();
        const KindRules rules = testing::rules_of(kind);
        std::string name = folder.names()[0];
        name.resize(name.size() - 4);
        RecordDirectory directory;
        int error = 0;
        CHECK(read_record_directory(folder.descriptor(), name, kind, rules.decoder_revision, key, false, &directory,
                                    &error) == RecordFileVerdict::kGood);
        for (const std::uint32_t size : {rules.max_record_bytes, rules.max_record_bytes + 1, std::uint32_t{1} << 26,
                                         (std::uint32_t{1} << 26) + 100, ~std::uint32_t{0}}) {
            RecordDirectory hostile = directory;
            hostile.covered_bytes = std::uint64_t{1} << 40;
            for (DirectoryEntry& entry : hostile.entries) entry.size = size;
            CHECK_EQUAL(write_record_directory(folder.descriptor(), name, kind, rules.decoder_revision, key, hostile),
                        0);
            const auto store = make_store(folder, {kMiB, 0, false, kind});
            CHECK_EQUAL(store->open(), 0);
            StoredRecord record;
            CHECK_EQUAL(store->find_record(content_key(0), &record), size == rules.max_record_bytes);
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
        RecordPlace written;
        CHECK_EQUAL(appender->append(content_key(number), rank, view_of(record), &written), 0);
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

TEST_CASE(threads_read_parts_while_others_keep_and_epochs_begin_and_end) {
    const RecordFolder folder;
    constexpr std::uint64_t kRecords = 60;
    constexpr std::size_t kSize = 4 * kBlockBytes;
    std::atomic<int> wrong{0};
    std::atomic<bool> is_over{false};
    {
        RunningStore store(folder, of_coefficients(64 * kMiB, 10 * kSize));
        std::vector<std::thread> readers;
        for (std::uint64_t reader = 0; reader < 4; ++reader) {
            readers.emplace_back([&, reader] {
                for (std::uint64_t i = reader; !is_over.load(); ++i) {
                    const LargeRead read = read_large(*store, i % (2 * kRecords));
                    wrong += read == LargeRead::kUnread || read == LargeRead::kWrong;
                }
            });
        }
        std::vector<std::thread> putters;
        for (std::uint64_t putter = 0; putter < 2; ++putter) {
            putters.emplace_back([&, putter] {
                for (std::uint64_t i = 0; i < kRecords; ++i) {
                    const std::uint64_t number = putter * kRecords + i;
                    wrong += !put_large(store.get(), number, kSize) || !has_large(*store, number);
                    if (i % 10 == 3) store->end_epoch();
                    if (i % 10 == 7) store->begin_epoch();
                    static_cast<void>(store->counters());
                }
            });
        }
        for (std::thread& putter : putters) putter.join();
        store.flush();
        is_over.store(true);
        for (std::thread& reader : readers) reader.join();
        CHECK_EQUAL(store->counters().damaged, 0U);
        CHECK_EQUAL(store->counters().write_error, 0);
    }
    CHECK_EQUAL(wrong.load(), 0);
    const auto next = make_store(folder, of_coefficients());
    CHECK_EQUAL(next->open(), 0);
    for (std::uint64_t i = 0; i < 2 * kRecords; ++i) CHECK(has_large(*next, i));
}

}  // namespace fastload

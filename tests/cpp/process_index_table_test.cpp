#include "engine/cache/process_index_table.h"

#include <atomic>
#include <thread>

#include "check.h"
#include "engine/fork_guard.h"
#include "failing_allocation.h"
#include "forked_child.h"
#include "table_records.h"

namespace fastload {
namespace {

using namespace testing;

// The bound of a table of so many records of a byte: their keys, a block, and what the last one may add.
constexpr std::size_t bound_of(std::size_t count) {
    return (count - 1) * 64 + RecordMap::kBlockBytes + RecordMap::kMostAddedBytes;
}

bool two_threads_see_one_table() {
    IndexTable* seen[2] = {};
    std::atomic<int> num_waiting{2};
    std::vector<std::thread> threads;
    for (IndexTable*& table : seen) {
        threads.emplace_back([&table, &num_waiting] {
            --num_waiting;
            while (num_waiting > 0) {
            }
            table = process_index_table();
        });
    }
    for (std::thread& thread : threads) thread.join();
    return seen[0] != nullptr && seen[0] == seen[1];
}

}  // namespace

// One case: the process has but one table, and what comes before its first use can be tried in children alone.
TEST_CASE(process_has_one_index_table_and_a_forked_child_another) {
    CHECK(install_fork_counter());
    // Threads meet where there is no table yet.
    int exit_code = 0;
    for (int i = 0; i < 50 && exit_code == 0; ++i) exit_code = in_forked_child(two_threads_see_one_table);
    CHECK_EQUAL(exit_code, 0);
    CHECK_EQUAL(in_forked_child([] {
                    const testing::FailingAllocation failing(1, true);
                    return process_index_table() == nullptr;
                }),
                0);

    CHECK(set_process_index_bytes(bound_of(50)));
    CHECK(set_process_index_bytes(bound_of(56)));
    IndexTable* table = process_index_table();
    CHECK(table != nullptr && table == process_index_table());
    CHECK(!set_process_index_bytes(kNoBound));
    CHECK(put(table, key_of(1), {7}));
    for (std::uint64_t key = 2; key < 100; ++key) static_cast<void>(put(table, key_of(key << 50), {1}));
    CHECK_EQUAL(table->counts().records, 56U);  // the bound that was set last

    const auto has_own = [table] {
        IndexTable* own = process_index_table();
        return own != nullptr && own != table && own == process_index_table() && own->counts().records == 0 &&
               found(*own, key_of(1)).empty() && put(own, key_of(1), {4}) && found(*own, key_of(1)) == Bytes{4};
    };
    CHECK_EQUAL(in_forked_child(has_own), 0);
    CHECK_EQUAL(in_forked_child([&] { return has_own() && in_forked_child(has_own) == 0; }), 0);
    // The parent's bound, then its own.
    CHECK_EQUAL(in_forked_child([] {
                    for (std::uint64_t key = 0; key < 100; ++key) {
                        static_cast<void>(put(process_index_table(), key_of(key << 50), {1}));
                    }
                    return process_index_table()->counts().records == 56;
                }),
                0);
    CHECK_EQUAL(in_forked_child([] {
                    return set_process_index_bytes(0) && !put(process_index_table(), key_of(1), {1}) &&
                           !set_process_index_bytes(kNoBound);
                }),
                0);
    CHECK(found(*table, key_of(1)) == (Bytes{7}));
    table->clear();
}

// Threads hold the table's lock nearly always, so some of the children are made while it is held.
TEST_CASE(forked_children_do_not_wait_for_the_lock_of_the_parents_index_table) {
    CHECK(install_fork_counter());
    IndexTable* table = process_index_table();
    std::atomic<bool> is_over{false};
    std::vector<std::thread> threads;
    for (std::uint64_t seed = 1; seed <= 2; ++seed) {
        threads.emplace_back([table, seed, &is_over] {
            Bytes record(60000, static_cast<std::uint8_t>(seed));
            while (!is_over) {
                static_cast<void>(table->put(key_of(seed << 50), 0, {record.data(), record.size()}));
                static_cast<void>(table->find(key_of(seed << 50), {record.data(), record.size()}));
            }
        });
    }
    int exit_code = 0;
    for (int i = 0; i < 50 && exit_code == 0; ++i) {
        exit_code = in_forked_child([] {
            const ContentKey key = key_of(3);
            const std::uint8_t record[] = {9};
            return process_index_table()->put(key, 0, {record, 1}) && process_index_table()->find(key, {}) == 1;
        });
    }
    CHECK_EQUAL(exit_code, 0);
    is_over = true;
    for (std::thread& thread : threads) thread.join();
    table->clear();
}

}  // namespace fastload

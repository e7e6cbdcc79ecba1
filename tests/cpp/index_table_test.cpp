#include "engine/cache/index_table.h"

#include <atomic>
#include <map>
#include <thread>

#include "check.h"
#include "engine/fork_guard.h"
#include "failing_allocation.h"
#include "forked_child.h"
#include "table_records.h"

namespace fastload {
namespace {

using namespace testing;

// The same table, made simply and slowly.
class Model {
  public:
    explicit Model(std::vector<ContentKey> keys) : keys_(std::move(keys)) {}

    void put(std::size_t key, Bytes record) { records_[key] = std::move(record); }
    void remove(std::size_t key) { records_.erase(key); }
    void clear() { records_.clear(); }
    const ContentKey& key(std::size_t index) const { return keys_[index]; }
    std::size_t num_keys() const { return keys_.size(); }

    Bytes record(std::size_t key) const {
        const auto it = records_.find(key);
        return it == records_.end() ? Bytes() : it->second;
    }

    bool is_that_of(const IndexTable& table) const {
        std::size_t bytes = 0;
        for (std::size_t key = 0; key < keys_.size(); ++key) {
            if (found(table, keys_[key]) != record(key)) return false;
            bytes += record(key).size();
        }
        return table.counts().records == records_.size() && table.counts().record_bytes == bytes;
    }

  private:
    std::vector<ContentKey> keys_;
    std::map<std::size_t, Bytes> records_;
};

void run_random_operations(Model* model, IndexTable* table, int count, std::size_t max_record_bytes,
                           std::mt19937_64* random) {
    for (int i = 0; i < count; ++i) {
        const std::size_t key = (*random)() % model->num_keys();
        const std::size_t kind = (*random)() % 16;
        if (kind < 9) {
            const Bytes record = record_of(1 + (*random)() % max_record_bytes, (*random)());
            if (put(table, model->key(key), record)) model->put(key, record);
        } else if (kind < 12) {
            table->remove(model->key(key));
            model->remove(key);
        } else {
            CHECK(found(*table, model->key(key)) == model->record(key));
        }
    }
    CHECK(model->is_that_of(*table));
}

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

TEST_CASE(index_table_says_the_size_of_a_record_that_is_too_long_for_the_buffer) {
    IndexTable table(kNoBound);
    const Bytes record = record_of(40, 1);
    CHECK(put(&table, key_of(1), record));
    Bytes buffer(39, 7);
    CHECK_EQUAL(table.find(key_of(1), {buffer.data(), buffer.size()}), 40U);
    CHECK(buffer == Bytes(39, 7));
    CHECK_EQUAL(table.find(key_of(1), {}), 40U);
    buffer.resize(40);
    CHECK_EQUAL(table.find(key_of(1), {buffer.data(), buffer.size()}), 40U);
    CHECK(buffer == record);
}

TEST_CASE(index_table_takes_records_of_every_size_and_no_other) {
    IndexTable table(kNoBound);
    std::uint64_t key = 0;
    const std::vector<std::size_t> sizes = {1,    2,    3,     4,     5,     6,     7,     8,    9,
                                            1000, 1023, 65000, 65531, 65532, 65533, 65534, 65535};
    for (int round = 0; round < 8; ++round) {
        for (const std::size_t size : sizes) {
            ++key;
            CHECK(put(&table, key_of(key << 40), record_of(size, key)));
        }
    }
    key = 0;
    for (int round = 0; round < 8; ++round) {
        for (const std::size_t size : sizes) {
            ++key;
            CHECK(found(table, key_of(key << 40)) == record_of(size, key));
        }
    }
    CHECK_EQUAL(IndexTable::kMaxRecordBytes, 65535U);
    CHECK(!put(&table, key_of(1), {}));
    CHECK(!put(&table, key_of(1), Bytes(65536)));
    CHECK(found(table, key_of(1)).empty());
    CHECK(!put(&table, key_of(1 << 30), Bytes(65536)));
}

TEST_CASE(index_table_tells_apart_keys_that_share_a_part_of_their_hash_or_their_length) {
    IndexTable table(kNoBound);
    const ContentKey key = {{1, 2}, 3};
    CHECK(put(&table, key, {1}));
    for (const ContentKey& other : {ContentKey{{0, 2}, 3}, ContentKey{{1, 0}, 3}, ContentKey{{1, 2}, 0}}) {
        CHECK(found(table, other).empty());
        CHECK(put(&table, other, {2}));
    }
    CHECK(found(table, key) == Bytes{1});
    CHECK_EQUAL(table.counts().records, 4U);
}

TEST_CASE(index_table_does_what_a_map_does) {
    for (const std::uint64_t seed : {1U, 2U, 3U, 4U}) {
        testing::current_variant() = "seed " + std::to_string(seed);
        std::mt19937_64 random(seed);
        for (const std::size_t num_keys : {3U, 60U, 900U}) {
            Model model(random_keys(num_keys, &random));
            IndexTable table(kNoBound);
            run_random_operations(&model, &table, 6000, seed % 2 == 0 ? 60 : 900, &random);
            table.clear();
            model.clear();
            CHECK_EQUAL(table.counts().memory_bytes, 0U);
            run_random_operations(&model, &table, 2000, 2000, &random);
        }
    }
}

TEST_CASE(index_table_at_its_bound_does_what_a_map_does) {
    constexpr std::size_t kBound = 5 * RecordMap::kBlockBytes;
    for (const std::uint64_t seed : {1U, 2U}) {
        testing::current_variant() = "seed " + std::to_string(seed);
        std::mt19937_64 random(seed);
        Model model(random_keys(400, &random));
        IndexTable table(kBound);
        for (int round = 0; round < 8; ++round) {
            run_random_operations(&model, &table, 1000, 3000, &random);
            CHECK(table.counts().memory_bytes <= kBound);
        }
        CHECK(table.counts().memory_bytes > kBound / 2);
    }
}

TEST_CASE(index_table_that_is_full_keeps_what_it_has) {
    constexpr std::size_t kBound = 10 * RecordMap::kBlockBytes;
    IndexTable table(kBound);
    std::uint64_t count = 0;
    while (put(&table, key_of(count), record_of(500, count))) ++count;
    CHECK(count * (500 + RecordMap::kOverheadBytes) > kBound / 2);
    CHECK(table.counts().memory_bytes <= kBound);
    CHECK_EQUAL(table.counts().records, count);
    CHECK(!put(&table, key_of(count), {1}));
    for (std::uint64_t i = 0; i < count; ++i) CHECK(found(table, key_of(i)) == record_of(500, i));
    IndexTable none(RecordMap::kBlockBytes);
    CHECK(!put(&none, key_of(1), {1}));
    CHECK_EQUAL(none.counts().memory_bytes, 0U);
}

// Each record comes in four lengths, and the longest ones are much alike, as for records of photographs: the space that
// one leaves is too short for any.
TEST_CASE(index_table_needs_little_beside_its_records_though_they_grow) {
    constexpr std::size_t kRecords = 30000;
    std::mt19937_64 random(4);
    const std::vector<ContentKey> keys = random_keys(kRecords, &random);
    std::vector<std::size_t> sizes(kRecords, 0);
    IndexTable table(kNoBound);
    for (const std::size_t size : {500U, 650U, 760U, 820U}) {
        for (std::size_t i = 0; i < kRecords; ++i) {
            const std::size_t key = random() % kRecords;
            sizes[key] = std::max(sizes[key], size + random() % 60);
            CHECK(put(&table, keys[key], record_of(sizes[key], key)));
            const IndexTable::Counts counts = table.counts();
            const std::size_t live = counts.record_bytes + counts.records * RecordMap::kOverheadBytes;
            CHECK(counts.memory_bytes <= live + live / 12 + 2 * RecordMap::kBlockBytes);
        }
    }
    for (std::size_t key = 0; key < kRecords; ++key) {
        CHECK(found(table, keys[key]) == (sizes[key] == 0 ? Bytes() : record_of(sizes[key], key)));
    }
}

// Each allocation of a series of calls fails once; then all fail from one on.
TEST_CASE(index_table_without_memory_is_as_it_was) {
    std::mt19937_64 random(5);
    const std::vector<ContentKey> keys = random_keys(300, &random);
    std::vector<Bytes> records;
    for (std::size_t i = 0; i < keys.size(); ++i) records.push_back(record_of(200 + i % 300, i));
    for (const bool for_good : {false, true}) {
        bool has_failed = true;
        for (std::int64_t n = 1; has_failed; ++n) {
            IndexTable table(kNoBound);
            std::vector<bool> is_there(keys.size());
            bool is_unchanged = true;
            {
                const testing::FailingAllocation failing(n, for_good);
                for (std::size_t i = 0; i < keys.size(); ++i) {
                    const IndexTable::Counts before = table.counts();
                    is_there[i] = table.put(keys[i], 0, {records[i].data(), records[i].size()});
                    const IndexTable::Counts after = table.counts();
                    if (!is_there[i]) {
                        is_unchanged = is_unchanged && after.records == before.records &&
                                       after.record_bytes == before.record_bytes;
                    }
                }
                has_failed = testing::FailingAllocation::has_failed();
            }
            CHECK(is_unchanged);
            CHECK_EQUAL(std::count(is_there.begin(), is_there.end(), false) > 0, has_failed);
            for (std::size_t i = 0; i < keys.size(); ++i) {
                CHECK(found(table, keys[i]) == (is_there[i] ? records[i] : Bytes()));
                if (!is_there[i]) CHECK(put(&table, keys[i], records[i]));
            }
            CHECK_EQUAL(table.counts().records, keys.size());
        }
    }
}

// Records say which key they have and how often they were written. Threads put, replace, remove and find the same keys.
TEST_CASE(index_table_is_whole_for_threads_that_change_it_at_once) {
    constexpr std::size_t kKeys = 500;
    std::mt19937_64 random(7);
    const std::vector<ContentKey> keys = random_keys(kKeys, &random);
    IndexTable table(4 * RecordMap::kBlockBytes);
    std::atomic<int> num_wrong{0};
    std::atomic<int> num_found{0};
    const auto work = [&](std::uint64_t seed) {
        std::mt19937_64 own(seed);
        Bytes buffer(2000);
        for (int i = 0; i < 8000; ++i) {
            const std::size_t key = own() % kKeys;
            const std::size_t kind = own() % 8;
            if (kind < 3) {
                const Bytes record = record_of(1 + own() % 1500, key);
                static_cast<void>(table.put(keys[key], 0, {record.data(), record.size()}));
            } else if (kind == 3) {
                table.remove(keys[key]);
            } else if (kind == 4 && i % 500 == 0) {
                static_cast<void>(table.counts());
                if (seed == 1) table.clear();
            } else {
                const std::size_t size = table.find(keys[key], {buffer.data(), buffer.size()});
                const Bytes expected = record_of(size, key);
                num_found += size > 0 ? 1 : 0;
                if (size > 1500 || !std::equal(expected.begin(), expected.end(), buffer.begin())) ++num_wrong;
            }
        }
    };
    std::vector<std::thread> threads;
    for (std::uint64_t seed = 1; seed <= 4; ++seed) threads.emplace_back(work, seed);
    for (std::thread& thread : threads) thread.join();
    CHECK_EQUAL(num_wrong.load(), 0);
    CHECK(num_found > 2000);
    CHECK(table.counts().records <= kKeys);
}

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

#include "engine/cache/decode_cache.h"

#include <atomic>
#include <thread>

#include "check.h"
#include "engine/fork_guard.h"
#include "entropy_indexes.h"
#include "failing_allocation.h"
#include "forked_child.h"
#include "table_records.h"

namespace fastload {
namespace {

using jpeg::EntropyIndex;
using jpeg::IndexLevel;
using jpeg::ScanShape;
using namespace testing;

constexpr std::size_t kCheckBytes = 8;
constexpr std::uint64_t kOverheadBytes = RecordMap::kOverheadBytes;
constexpr std::uint64_t kSampled = 256;  // records after which a level is judged
constexpr std::size_t kDataBytes = 9000;
constexpr std::size_t kTableBytes = std::size_t{2} << 20;

HashKey hash_key_of(std::uint64_t seed) {
    HashKey key = {};
    std::mt19937_64 random(seed);
    for (std::uint64_t& word : key.words) word = random();
    return key;
}

// Returns a key whose records lie apart from the records of other numbers.
ContentKey spread_key(std::uint64_t number) { return key_of(number * 0x9E3779B97F4A7C15U); }

// A cache and the scratch of a thread that uses it.
class Cache {
  public:
    Cache(IndexTable* table, std::uint64_t expected_samples, std::uint64_t secret = 1)
        : key_(hash_key_of(secret)), cache_(key_, testing::borrowed(table), expected_samples) {}

    DecodeCache& operator*() noexcept { return cache_; }
    DecodeCache* operator->() noexcept { return &cache_; }

    EntropyIndex find(const ContentKey& key, const ScanShape& shape = kThreeComponents) {
        EntropyIndex index;
        CHECK(cache_.find(key, shape, buffer(), &index).is_ok());
        return index;
    }
    void keep(const ContentKey& key, const EntropyIndex& index) { cache_.keep(key, index, buffer()); }
    Span<std::uint8_t> buffer() noexcept { return {buffer_.data(), buffer_.size()}; }

  private:
    const HashKey key_;
    DecodeCache cache_;
    Bytes buffer_ = Bytes(DecodeCache::kMaxRecordBytes);
};

EntropyIndex complete_index(IndexLevel level, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    return any_index(kThreeComponents, level, kThreeComponents.mcus_high, kDataBytes, &random);
}

// Returns the bytes of an index, as the cache counts them.
std::uint64_t bytes_of(const EntropyIndex& index) {
    return testing::packed(index).size() + kCheckBytes + kOverheadBytes;
}

void keep_many(Cache* cache, const EntropyIndex& index, std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t i = first; i < first + count; ++i) cache->keep(spread_key(i), index);
}

}  // namespace

TEST_CASE(cache_finds_what_was_kept_until_it_is_dropped) {
    IndexTable table(kNoBound);
    Cache cache(&table, 1000);
    const EntropyIndex kept = complete_index(IndexLevel::kDense, 1);
    CHECK_EQUAL(cache.find(key_of(1)).size(), 0U);
    cache.keep(key_of(1), kept);
    CHECK(is_same(cache.find(key_of(1)), kept));
    CHECK_EQUAL(cache.find(key_of(2)).size(), 0U);
    const EntropyIndex other = complete_index(IndexLevel::kDense, 2);
    cache.keep(key_of(1), other);
    CHECK(is_same(cache.find(key_of(1)), other));
    cache->drop(key_of(1));
    CHECK_EQUAL(cache.find(key_of(1)).size(), 0U);
    CHECK_EQUAL(table.counts().records, 0U);
    const CacheCounters counters = cache->counters();
    CHECK_EQUAL(counters.hits, 2U);
    CHECK_EQUAL(counters.misses, 3U);
    CHECK_EQUAL(counters.mismatches, 1U);
    CHECK_EQUAL(counters.dropped, 0U);
}

TEST_CASE(keys_depend_on_all_contents_and_on_the_secret) {
    IndexTable table(kNoBound);
    Cache cache(&table, 1000, 1);
    Cache other(&table, 1000, 2);
    Bytes contents(300, 7);
    const ContentKey key = cache->key_of({contents.data(), contents.size()});
    CHECK_EQUAL(key.length, 300U);
    CHECK(!(key == other->key_of({contents.data(), contents.size()})));
    CHECK(!(key == cache->key_of({contents.data(), contents.size() - 1})));
    contents.back() = 6;
    CHECK(!(key == cache->key_of({contents.data(), contents.size()})));
    contents.back() = 7;
    CHECK(key == cache->key_of({contents.data(), contents.size()}));
}

TEST_CASE(record_under_another_key_or_secret_is_a_miss) {
    IndexTable table(kNoBound);
    Cache cache(&table, 1000, 1);
    cache.keep(key_of(1), complete_index(IndexLevel::kDense, 1));
    CHECK(put(&table, key_of(2), found(table, key_of(1))));
    CHECK_EQUAL(cache.find(key_of(2)).size(), 0U);
    CHECK(cache.find(key_of(1)).is_complete());
    Cache other(&table, 1000, 2);
    CHECK_EQUAL(other.find(key_of(1)).size(), 0U);
}

TEST_CASE(every_changed_bit_and_every_cut_of_a_record_is_a_miss) {
    IndexTable table(kNoBound);
    Cache cache(&table, 1000);
    cache.keep(key_of(1), complete_index(IndexLevel::kDense, 1));
    const Bytes record = found(table, key_of(1));
    for (std::size_t bit = 0; bit < record.size() * 8; ++bit) {
        Bytes changed = record;
        changed[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
        CHECK(put(&table, key_of(1), changed));
        CHECK_EQUAL(cache.find(key_of(1)).size(), 0U);
    }
    for (std::size_t size = 1; size < record.size(); ++size) {
        CHECK(table.put(key_of(1), 0, {record.data(), size}));
        CHECK_EQUAL(cache.find(key_of(1)).size(), 0U);
    }
    CHECK_EQUAL(cache->counters().hits, 0U);
    CHECK_EQUAL(cache->counters().misses, record.size() * 9 - 1);
    CHECK(put(&table, key_of(1), record));
    CHECK(cache.find(key_of(1)).is_complete());
}

// The sums of the record are right: a process has one table, but may read the same contents with another shape in mind.
TEST_CASE(record_of_another_shape_is_a_miss) {
    IndexTable table(kNoBound);
    Cache cache(&table, 1000);
    cache.keep(key_of(1), complete_index(IndexLevel::kDense, 1));
    CHECK_EQUAL(cache.find(key_of(1), {41, 6, 3, 3}).size(), 0U);
    CHECK_EQUAL(cache->counters().misses, 1U);
}

TEST_CASE(cache_falls_back_to_rows_if_dense_records_of_all_samples_do_not_fit) {
    const EntropyIndex dense = complete_index(IndexLevel::kDense, 1);
    constexpr std::uint64_t kSamples = 4096;
    for (const bool fits : {true, false}) {
        IndexTable table(kSamples * (bytes_of(dense) - (fits ? 0 : 1)));
        Cache cache(&table, kSamples);
        keep_many(&cache, dense, 0, kSampled - 1);
        CHECK(cache->is_dense());
        CHECK(cache.find(spread_key(kSampled)).level() == IndexLevel::kDense);
        keep_many(&cache, dense, kSampled, 1);
        CHECK_EQUAL(cache->is_dense(), fits);
        const EntropyIndex begun = cache.find(spread_key(kSampled + 1));
        CHECK(begun.level() == (fits ? IndexLevel::kDense : IndexLevel::kRows));
        // Indexes that were kept before are still good, and may grow.
        CHECK(is_same(cache.find(spread_key(0)), dense));
        keep_many(&cache, dense, 0, 3 * kSampled);
        CHECK_EQUAL(cache->is_dense(), fits);
        CHECK(cache->is_worth_it());
        CHECK_EQUAL(cache->counters().dropped, 0U);
    }
}

TEST_CASE(cache_that_can_hold_less_than_a_twentieth_is_not_worth_it) {
    const EntropyIndex dense = complete_index(IndexLevel::kDense, 1);
    const EntropyIndex rows = complete_index(IndexLevel::kRows, 1);
    const std::uint64_t bytes_a_sample = bytes_of(rows) / 20;
    for (const bool is_enough : {true, false}) {
        IndexTable table(kTableBytes);
        Cache cache(&table, is_enough ? kTableBytes / bytes_a_sample : kTableBytes / bytes_a_sample * 4);
        keep_many(&cache, dense, 0, kSampled);
        CHECK(!cache->is_dense());
        keep_many(&cache, rows, kSampled, kSampled - 1);
        CHECK(cache->is_worth_it());
        keep_many(&cache, rows, 2 * kSampled, 1);
        CHECK_EQUAL(cache->is_worth_it(), is_enough);
        CHECK_EQUAL(cache->counters().dropped, 0U);
    }
}

TEST_CASE(cache_for_an_unknown_number_of_samples_is_dense_for_half_of_the_room) {
    const EntropyIndex dense = complete_index(IndexLevel::kDense, 1);
    const EntropyIndex rows = complete_index(IndexLevel::kRows, 1);
    IndexTable table(kTableBytes);
    Cache cache(&table, 0);
    std::uint64_t records = 0;
    while (cache->is_dense() && cache->counters().dropped == 0) {
        CHECK(table.counts().memory_bytes <= kTableBytes / 2 || records % kSampled != 0);
        keep_many(&cache, dense, records++, 1);
    }
    CHECK_EQUAL(records % kSampled, 0U);
    CHECK_EQUAL(cache->counters().dropped, 0U);
    CHECK(table.counts().memory_bytes > kTableBytes / 2);
    while (cache->counters().dropped < 3 * kSampled) keep_many(&cache, rows, records++, 1);
    CHECK(!cache->is_dense());
    CHECK(cache->is_worth_it());
}

// A record must not be larger than it is worth for its image.
TEST_CASE(image_with_very_many_checkpoints_keeps_only_row_checkpoints) {
    IndexTable table(kNoBound);
    Cache cache(&table, 1000);
    CHECK_EQUAL(jpeg::CheckpointRule({128, 819, 3, 3}, IndexLevel::kDense).count(), 8190U);
    CHECK(cache.find(key_of(1), {128, 819, 3, 3}).level() == IndexLevel::kDense);
    CHECK(cache.find(key_of(1), {128, 820, 3, 3}).level() == IndexLevel::kRows);
}

TEST_CASE(full_table_keeps_its_records_and_dropped_ones_are_counted) {
    IndexTable table(kTableBytes);
    Cache cache(&table, 1000);
    const EntropyIndex kept = complete_index(IndexLevel::kDense, 1);
    std::uint64_t records = 0;
    while (cache->counters().dropped == 0) cache.keep(spread_key(records++), kept);
    CHECK(records > 100);
    keep_many(&cache, kept, records, 9);
    CHECK_EQUAL(cache->counters().dropped, 10U);
    CHECK(is_same(cache.find(spread_key(0)), kept));
    CHECK(is_same(cache.find(spread_key(records - 2)), kept));
    CHECK_EQUAL(cache.find(spread_key(records - 1)).size(), 0U);
}

// Other caches have filled the table.
TEST_CASE(cache_without_room_or_hits_gives_up) {
    const EntropyIndex index = complete_index(IndexLevel::kRows, 1);
    for (const std::uint64_t hits : {0U, 300U}) {
        IndexTable table(kTableBytes);
        Cache other(&table, 0);
        std::uint64_t records = 0;
        while (other->counters().dropped == 0) other.keep(spread_key(records++), index);
        Cache cache(&table, 0);
        for (std::uint64_t i = 0; i < hits; ++i) CHECK_EQUAL(cache.find(spread_key(0)).size(), index.size());
        keep_many(&cache, index, records, 4095);
        CHECK(cache->is_worth_it());
        keep_many(&cache, index, records + 4095, 1);
        CHECK_EQUAL(cache->is_worth_it(), hits != 0);
        CHECK_EQUAL(cache->counters().dropped, 4096U);
    }
}

TEST_CASE(record_that_is_too_long_is_not_kept) {
    IndexTable table(kNoBound);
    Cache cache(&table, 1000);
    std::mt19937_64 random(1);
    const ScanShape shape = {1, 20'000, 1, 1};
    const std::uint32_t rows = shape.mcus_high;
    cache.keep(key_of(1), any_index(shape, IndexLevel::kRows, rows, std::size_t{1} << 31, &random));
    CHECK_EQUAL(cache->counters().dropped, 1U);
    CHECK_EQUAL(table.counts().records, 0U);
    cache.keep(key_of(1), any_index(shape, IndexLevel::kRows, rows / 2, std::size_t{1} << 31, &random));
    CHECK_EQUAL(cache->counters().dropped, 1U);
    CHECK_EQUAL(cache.find(key_of(1), shape).rows_known(), rows / 2);
}

TEST_CASE(cache_without_memory_says_so_and_keeps_nothing) {
    IndexTable table(kNoBound);
    Cache cache(&table, 1000);
    const EntropyIndex kept = complete_index(IndexLevel::kDense, 1);
    EntropyIndex index;
    {
        const testing::FailingAllocation failing(1, true);
        CHECK(cache->find(key_of(1), kThreeComponents, cache.buffer(), &index).code == StatusCode::kOutOfMemory);
        cache.keep(key_of(1), kept);
    }
    CHECK_EQUAL(cache->counters().hits + cache->counters().misses, 0U);
    CHECK_EQUAL(cache->counters().dropped, 1U);
    cache.keep(key_of(1), kept);
    CHECK(is_same(cache.find(key_of(1)), kept));
}

TEST_CASE(cache_of_the_parent_is_not_worth_it_in_a_forked_child) {
    CHECK(install_fork_counter());
    IndexTable table(kNoBound);
    Cache cache(&table, 1000);
    CHECK(cache->is_worth_it());
    CHECK_EQUAL(testing::in_forked_child([&cache] {
                    IndexTable own(kNoBound);
                    Cache of_child(&own, 1000);
                    return !cache->is_worth_it() && of_child->is_worth_it();
                }),
                0);
    CHECK(cache->is_worth_it());
}

// Each key has an index of its own at each level, so one of another key is seen.
TEST_CASE(cache_is_whole_for_threads_that_use_it_at_once) {
    constexpr std::uint64_t kKeys = 100;
    IndexTable table(kTableBytes);
    Cache shared(&table, 1'000'000);
    std::vector<EntropyIndex> indexes;
    for (std::uint64_t i = 0; i < 2 * kKeys; ++i) {
        indexes.push_back(complete_index(i < kKeys ? IndexLevel::kDense : IndexLevel::kRows, i));
    }
    std::atomic<int> num_wrong{0};
    std::atomic<std::uint64_t> num_hits{0};
    std::atomic<std::uint64_t> num_misses{0};
    const auto work = [&](std::uint64_t seed) {
        std::mt19937_64 random(seed);
        Bytes buffer(DecodeCache::kMaxRecordBytes);
        EntropyIndex index;
        for (int i = 0; i < 3000; ++i) {
            const std::size_t number = random() % kKeys;
            const ContentKey key = spread_key(number);
            const std::size_t kind = random() % 16;
            if (kind == 0) {
                shared->drop(key);
            } else if (kind < 6) {
                const std::size_t level = shared->is_dense() ? 0 : kKeys;
                shared->keep(key, indexes[number + level], {buffer.data(), buffer.size()});
            } else if (!shared->find(key, kThreeComponents, {buffer.data(), buffer.size()}, &index).is_ok()) {
                ++num_wrong;
            } else if (index.size() == 0) {
                ++num_misses;
            } else {
                ++num_hits;
                if (!is_same(index, indexes[number]) && !is_same(index, indexes[number + kKeys])) ++num_wrong;
            }
        }
    };
    std::vector<std::thread> threads;
    for (std::uint64_t seed = 1; seed <= 4; ++seed) threads.emplace_back(work, seed);
    for (std::thread& thread : threads) thread.join();
    CHECK_EQUAL(num_wrong.load(), 0);
    CHECK(num_hits > 1000);
    CHECK_EQUAL(shared->counters().hits, num_hits.load());
    CHECK_EQUAL(shared->counters().misses, num_misses.load());
    CHECK(!shared->is_dense());
    CHECK(!shared->is_worth_it());
}

}  // namespace fastload

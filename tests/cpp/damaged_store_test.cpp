// Stores with changed files: an index from one is the index that was kept, or there is none.

#include "check.h"
#include "engine/cache/decode_cache.h"
#include "entropy_indexes.h"
#include "rounds.h"
#include "running_store.h"

namespace fastload {
namespace {

using namespace testing;

constexpr std::uint64_t kNumIndexes = 12;
constexpr std::size_t kDataBytes = 9000;

jpeg::EntropyIndex index_of(std::uint64_t number) {
    std::mt19937_64 random(number);
    const auto level = number % 2 == 0 ? jpeg::IndexLevel::kDense : jpeg::IndexLevel::kRows;
    return testing::any_index(kThreeComponents, level, kThreeComponents.mcus_high, kDataBytes, &random);
}

}  // namespace

TEST_CASE(an_index_from_a_damaged_store_is_the_one_that_was_kept) {
    const RecordFolder folder;
    const HashKey key = store_key();
    std::vector<jpeg::EntropyIndex> kept;
    RecordBytes buffer(DecodeCache::kMaxRecordBytes);
    const Span<std::uint8_t> scratch(buffer.data(), buffer.size());
    {
        RunningStore store(folder);
        DecodeCache cache(key, std::shared_ptr<IndexRecords>(store.get(), [](IndexRecords*) {}), 0);
        for (std::uint64_t i = 0; i < kNumIndexes; ++i) {
            kept.push_back(index_of(i));
            CHECK(cache.keep(content_key(i), kept.back(), scratch));
        }
    }
    std::vector<std::string> names = folder.names();
    names.erase(std::remove(names.begin(), names.end(), "lock"), names.end());
    CHECK_EQUAL(names.size(), 2U);
    const std::vector<std::string> whole = {folder.read(names[0]), folder.read(names[1])};
    std::uint64_t hits = 0;
    std::uint64_t misses = 0;
    for (std::uint64_t seed = 0; seed < testing::rounds(10'000); ++seed) {
        std::mt19937_64 random(seed);
        const std::size_t which = seed % 2;
        folder.write(names[which], testing::damaged(whole[which], &random));
        const std::shared_ptr<RecordStore> store = make_store(folder, {testing::kMiB, testing::kMiB, false});
        CHECK_EQUAL(store->open(), 0);
        DecodeCache cache(key, store, 0);
        for (std::uint64_t i = 0; i < kNumIndexes; ++i) {
            const std::uint64_t before = cache.counters().hits;
            jpeg::EntropyIndex index;
            CHECK(cache.find(content_key(i), kThreeComponents, scratch, &index).is_ok());
            if (cache.counters().hits == before) continue;
            if (is_same(index, kept[i])) continue;
            testing::current_variant() = "seed " + std::to_string(seed);
            CHECK(false);
            testing::current_variant() = "";
        }
        hits += cache.counters().hits;
        misses += cache.counters().misses;
        folder.write(names[which], whole[which]);
    }
    CHECK(hits > testing::rounds(10'000));
    CHECK(misses > testing::rounds(10'000));
}

// Writes directories as the holder of a key could: all checks are right, the entries are not.
TEST_CASE(a_hostile_directory_with_right_checks_gives_no_wrong_record) {
    const RecordFolder folder;
    testing::fill_files(folder, 1, 20, 200);
    const HashKey key = store_key();
    std::string name = folder.names()[0];
    name.resize(name.size() - 4);
    RecordDirectory directory;
    int error = 0;
    CHECK(read_record_directory(folder.descriptor(), name, RecordKind::kIndex, kIndexRevision, key, &directory,
                                &error) == RecordFileVerdict::kGood);
    for (std::uint64_t seed = 0; seed < testing::rounds(1000); ++seed) {
        std::mt19937_64 random(seed);
        RecordDirectory hostile = directory;
        for (DirectoryEntry& entry : hostile.entries) {
            if (random() % 3 == 0) entry.size = static_cast<std::uint32_t>(random() >> (random() % 64));
            if (random() % 3 == 0) entry.offset = (random() >> (random() % 64)) / 8 * 8;
            if (random() % 3 == 0) entry.rank = static_cast<std::uint32_t>(random());
        }
        if (random() % 2 == 0) hostile.covered_bytes = (random() >> (1 + random() % 63)) / 8 * 8;
        if (random() % 4 == 0) hostile.generation = random();
        CHECK_EQUAL(write_record_directory(folder.descriptor(), name, RecordKind::kIndex, kIndexRevision, key, hostile),
                    0);
        RunningStore store(folder, {testing::kMiB, testing::kMiB, false});
        for (std::uint64_t i = 0; i < 20; ++i) {
            const RecordBytes record = testing::found(*store, i);
            CHECK(record.empty() || record == testing::record_bytes(i, 200));
        }
    }
}

}  // namespace fastload

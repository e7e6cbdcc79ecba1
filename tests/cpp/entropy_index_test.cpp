#include "codec/jpeg/entropy_index.h"

#include "check.h"
#include "entropy_indexes.h"
#include "failing_allocation.h"
#include "packed_index_model.h"
#include "rounds.h"

namespace fastload::jpeg {
namespace {

using namespace testing;

constexpr IndexLevel kLevels[] = {IndexLevel::kRows, IndexLevel::kDense};
constexpr std::size_t kLargestData = std::numeric_limits<std::uint32_t>::max();

// The columns of a row that have stops: Note [stops], by exact fractions.
std::vector<std::uint32_t> columns_of_stops(const ScanShape& shape, IndexLevel level, std::uint32_t row) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> steps;  // t as a fraction
    if (level == IndexLevel::kRows && row % 3 == 0) steps = {{2, 5}};
    if (level == IndexLevel::kDense) {
        const auto blocks = static_cast<std::uint32_t>(shape.blocks_per_mcu);
        std::uint32_t stops = shape.mcus_wide * blocks / 40;
        while (stops > 0 && 5 * shape.mcus_wide < 16 * (stops + 1)) --stops;
        for (std::uint32_t stop = 1; stop <= stops; ++stop) steps.emplace_back(stop, stops + 1);
    }
    std::vector<std::uint32_t> columns;
    for (const auto& [a, b] : steps) {
        const std::uint32_t column = shape.mcus_wide * (5 * a * b + 4 * a * a) / (16 * b * b);
        if (column > 0) columns.push_back(column);
    }
    return columns;
}

// The MCU that follows each checkpoint, in stream order.
std::vector<std::uint32_t> mcus_of_checkpoints(const ScanShape& shape, IndexLevel level) {
    std::vector<std::uint32_t> mcus;
    for (std::uint32_t row = 0; row < shape.mcus_high; ++row) {
        for (const std::uint32_t column : columns_of_stops(shape, level, row)) {
            mcus.push_back(row * shape.mcus_wide + column);
        }
        mcus.push_back((row + 1) * shape.mcus_wide);
    }
    for (std::size_t i = 1; i < mcus.size(); ++i) CHECK(mcus[i - 1] < mcus[i]);
    return mcus;
}

void check_rule(const ScanShape& shape, IndexLevel level) {
    const CheckpointRule rule(shape, level);
    const std::vector<std::uint32_t> mcus = mcus_of_checkpoints(shape, level);
    CHECK_EQUAL(rule.count(), mcus.size());
    CheckpointRule::Place place = rule.place(0);
    for (std::size_t i = 0; i < mcus.size(); ++i) {
        CHECK_EQUAL(rule.mcu(i), mcus[i]);
        CHECK_EQUAL(rule.mcu(place), mcus[i]);
        const CheckpointRule::Place there = rule.place(i);
        CHECK_EQUAL(there.row_begin, place.row_begin);
        CHECK_EQUAL(there.number, place.number);
        CHECK_EQUAL(there.last, place.last);
        CHECK_EQUAL(there.last_above, place.last_above);
        CHECK_EQUAL(there.group_row, place.group_row);
        // The rows known when the first i checkpoints are: those whose last checkpoint is one of them.
        CHECK_EQUAL(rule.rows_of(i), i == 0 ? 0U : mcus[i - 1] / shape.mcus_wide);
        rule.advance(&place);
    }
    std::size_t through = 0;
    for (std::uint32_t mcu = 0; mcu <= shape.mcu_count(); ++mcu) {
        while (through < mcus.size() && mcus[through] <= mcu) ++through;
        CHECK_EQUAL(rule.count_through(mcu), through);
        if (mcu % shape.mcus_wide == 0) CHECK_EQUAL(rule.count_in_rows(mcu / shape.mcus_wide), through);
    }
}

// An index with given positions, of which two have one row of MCUs between them.
EntropyIndex index_of_positions(const std::vector<std::uint64_t>& positions, std::size_t data_bytes) {
    EntropyIndex index = begun({1, static_cast<std::uint32_t>(positions.size()), 1, 1}, IndexLevel::kRows);
    CHECK(index.accepts(data_bytes));
    for (const std::uint64_t position : positions) {
        Checkpoint checkpoint;
        checkpoint.position_bits = position;
        index.append(checkpoint);
    }
    return index;
}

// Unpacks into an index that knows something else.
void check_round_trip(const EntropyIndex& index) {
    const Bytes record = packed(index);
    CHECK(!record.empty());
    std::mt19937_64 random(1);
    EntropyIndex read = any_index({1, 3, 1, 1}, IndexLevel::kRows, 2, 4000, &random);
    CHECK(read.unpack(index.shape(), {record.data(), record.size()}));
    CHECK(is_same(read, index));
    CHECK_EQUAL(read.shape().mcus_wide, index.shape().mcus_wide);
    CHECK_EQUAL(read.rule().count(), index.rule().count());
    CHECK(packed(read) == record);
}

// Unpacks bytes after which nothing can be read, and compares the result with them.
void check_as_the_model(const ScanShape& shape, const Bytes& bytes, int* num_taken) {
    const std::unique_ptr<std::uint8_t[]> exact(new std::uint8_t[bytes.size()]);
    std::copy(bytes.begin(), bytes.end(), exact.get());
    EntropyIndex index = begun(shape, IndexLevel::kRows);
    const bool is_taken = index.unpack(shape, {exact.get(), bytes.size()});
    const testing::PackedIndexModel model(shape, bytes);
    CHECK_EQUAL(is_taken, model.is_right());
    if (!is_taken) {
        CHECK_EQUAL(index.size(), 0U);
        return;
    }
    ++*num_taken;
    CHECK_EQUAL(index.size(), model.checkpoints().size());
    std::uint64_t before = 0;
    for (std::size_t i = 0; i < std::min(index.size(), model.checkpoints().size()); ++i) {
        CHECK(index[i] == model.checkpoints()[i]);
        CHECK(index[i].position_bits > before && index[i].position_bits <= index.data_bytes() * 8);
        before = index[i].position_bits;
    }
}

Bytes with_flipped_bit(Bytes bytes, std::size_t bit) {
    bytes[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
    return bytes;
}

}  // namespace

TEST_CASE(checkpoints_stand_where_the_rule_says_in_words) {
    for (const IndexLevel level : kLevels) {
        for (const int blocks : {1, 2, 3, 4, 5, 6, 8, 10, 24, 25}) {
            for (std::uint32_t wide = 1; wide <= 110; wide += wide < 20 ? 1 : 7) {
                for (const std::uint32_t high : {1U, 2U, 3U, 8U}) {
                    testing::current_variant() = std::to_string(wide) + " x " + std::to_string(high) + " MCUs of " +
                                                 std::to_string(blocks) + " blocks";
                    check_rule({wide, high, blocks, 1}, level);
                }
            }
        }
    }
}

TEST_CASE(packed_indexes_are_read_as_they_were) {
    std::mt19937_64 random(2);
    for (const int components : {1, 3, kMaxComponents}) {
        for (const IndexLevel level : kLevels) {
            for (const std::size_t data_bytes : {std::size_t{2000}, std::size_t{110'000}, kLargestData}) {
                for (std::uint32_t rows = 0; rows <= 6; ++rows) {
                    check_round_trip(any_index({50, 6, components, components}, level, rows, data_bytes, &random));
                }
            }
        }
    }
}

TEST_CASE(packed_indexes_have_predictions_of_all_16_bits) {
    EntropyIndex index = begun(kThreeComponents, IndexLevel::kDense);
    CHECK(index.accepts(1000));
    Checkpoint checkpoint;
    for (std::size_t i = 0; i < index.rule().count(); ++i) {
        ++checkpoint.position_bits;
        for (std::size_t c = 0; c < 3; ++c) {
            const std::int16_t values[] = {-32768, 32767, 0, -1, 1};
            checkpoint.predictions[c] = values[i < 6 ? i % 2 : (i + c) % 5];
        }
        index.append(checkpoint);
    }
    check_round_trip(index);
}

// Steps of one bit, and one that takes nearly all of the possible data.
TEST_CASE(packed_indexes_have_positions_that_need_the_escape) {
    const std::uint64_t end = kLargestData * 8;
    for (const std::uint64_t large : {end, end - 200, std::uint64_t{1} << 34}) {
        std::vector<std::uint64_t> positions;
        for (std::uint64_t i = 1; i <= 100; ++i) positions.push_back(i);
        positions.push_back(large);
        if (large + 100 <= end) {
            for (std::uint64_t i = 1; i <= 100; ++i) positions.push_back(large + i);
        }
        const EntropyIndex index = index_of_positions(positions, kLargestData);
        CHECK((large - 100) >> packed(index)[testing::kPackedHeadBytes] >= testing::kPackedEscape);
        check_round_trip(index);
    }
    check_round_trip(index_of_positions({end}, kLargestData));
    check_round_trip(index_of_positions({1}, 1));
}

TEST_CASE(index_of_data_of_more_than_4_gib_is_not_packed) {
    CHECK(packed(index_of_positions({8}, kLargestData + 1)).empty());
}

TEST_CASE(row_that_is_not_known_as_a_whole_is_not_packed) {
    std::mt19937_64 random(3);
    const EntropyIndex whole = any_index(kThreeComponents, IndexLevel::kDense, 4, 9000, &random);
    EntropyIndex more = begun(kThreeComponents, IndexLevel::kDense);
    CHECK(more.accepts(9000));
    for (std::size_t i = 0; i < whole.size(); ++i) more.append(whole[i]);
    CHECK(more.rule().count_in_rows(5) > more.size() + 1);
    Checkpoint next = whole[whole.size() - 1];
    ++next.position_bits;
    more.append(next);
    CHECK_EQUAL(more.rows_known(), 4U);
    CHECK(packed(more) == packed(whole));
}

TEST_CASE(index_is_packed_only_into_memory_that_is_large_enough) {
    std::mt19937_64 random(4);
    const EntropyIndex index = any_index(kThreeComponents, IndexLevel::kDense, 6, 9000, &random);
    const Bytes record = packed(index);
    for (std::size_t size = 0; size < record.size(); ++size) {
        // An exact copy, so that the address sanitizer detects a read after the end.
        const std::unique_ptr<std::uint8_t[]> room(new std::uint8_t[size]);
        CHECK_EQUAL(index.pack({room.get(), size}), 0U);
    }
    Bytes room(record.size());
    CHECK_EQUAL(index.pack({room.data(), room.size()}), record.size());
    CHECK(room == record);
}

TEST_CASE(every_cut_of_a_packed_index_is_refused) {
    std::mt19937_64 random(5);
    for (const IndexLevel level : kLevels) {
        const Bytes record = packed(any_index(kThreeComponents, level, 6, 9000, &random));
        int num_taken = 0;
        for (std::size_t size = 0; size < record.size(); ++size) {
            check_as_the_model(kThreeComponents, Bytes(record.begin(), record.begin() + std::ptrdiff_t(size)),
                               &num_taken);
        }
        CHECK_EQUAL(num_taken, 0);
        Bytes longer = record;
        longer.push_back(0);
        check_as_the_model(kThreeComponents, longer, &num_taken);
        CHECK_EQUAL(num_taken, 0);
        check_as_the_model(kThreeComponents, record, &num_taken);
        CHECK_EQUAL(num_taken, 1);
    }
}

TEST_CASE(changed_bits_of_a_packed_index_are_refused_or_say_places_in_the_data) {
    std::mt19937_64 random(6);
    for (const IndexLevel level : kLevels) {
        // With room after the positions, and small steps of predictions, so that many changes are accepted.
        const Bytes record = packed(any_index(kThreeComponents, level, 6, 90'000, &random));
        int num_taken = 0;
        for (std::size_t bit = 0; bit < record.size() * 8; ++bit) {
            check_as_the_model(kThreeComponents, with_flipped_bit(record, bit), &num_taken);
            for (int i = 0; i < 20; ++i) {
                const Bytes changed = with_flipped_bit(record, bit);
                check_as_the_model(kThreeComponents, with_flipped_bit(changed, random() % (8 * record.size())),
                                   &num_taken);
            }
        }
        CHECK(num_taken > 100);
    }
}

TEST_CASE(any_bits_after_a_valid_head_are_read_as_written) {
    std::mt19937_64 random(7);
    int num_taken = 0;
    const ScanShape shape = {30, 2, 1, 1};
    for (std::uint64_t i = 0; i < testing::rounds(5'000); ++i) {
        Bytes record = packed(any_index(shape, IndexLevel::kDense, 1 + random() % 2, kLargestData, &random));
        record[testing::kPackedHeadBytes] = static_cast<std::uint8_t>(random() % 40);
        for (std::size_t at = testing::kPackedHeadBytes + 1; at < record.size(); ++at) {
            // Few ones, so that some codes are long.
            record[at] = static_cast<std::uint8_t>(random() & random() & random());
        }
        record.resize(testing::kPackedHeadBytes + 2 + random() % (record.size() + 8));
        check_as_the_model(shape, record, &num_taken);
    }
    CHECK(num_taken > (testing::has_all_rounds() ? 20 : 0));
}

TEST_CASE(record_of_a_scan_of_another_shape_is_refused) {
    std::mt19937_64 random(8);
    const Bytes record = packed(any_index(kThreeComponents, IndexLevel::kRows, 6, 9000, &random));
    const auto is_taken = [&record](const ScanShape& shape) {
        EntropyIndex index = begun(shape, IndexLevel::kRows);
        return index.unpack(shape, {record.data(), record.size()});
    };
    CHECK(is_taken(kThreeComponents));
    CHECK(!is_taken({41, 6, 3, 3}));
    CHECK(!is_taken({40, 7, 3, 3}));
    CHECK(!is_taken({60, 4, 3, 3}));  // as many MCUs in fewer rows than are known
    CHECK(!is_taken({40, 6, 1, 1}));
    CHECK(!is_taken({40, 6, 4, 4}));
}

TEST_CASE(index_without_memory_stays_as_it_was) {
    std::mt19937_64 random(9);
    EntropyIndex index = any_index({2, 3, 1, 1}, IndexLevel::kRows, 2, 4000, &random);
    const Bytes before = packed(index);
    const ScanShape large = {1000, 500, 3, 3};
    const Bytes record = packed(any_index(large, IndexLevel::kDense, 500, 9'000'000, &random));
    {
        const testing::FailingAllocation failing(1, true);
        CHECK(index.begin(large, IndexLevel::kDense).code == StatusCode::kOutOfMemory);
        CHECK(!index.unpack(large, {record.data(), record.size()}));
    }
    CHECK(packed(index) == before);
    CHECK(index.unpack(large, {record.data(), record.size()}));
    const std::int64_t allocations = testing::num_allocations();
    CHECK(index.unpack(large, {record.data(), record.size()}));
    CHECK_EQUAL(testing::num_allocations(), allocations);
    CHECK(index.is_complete());
}

TEST_CASE(index_takes_the_first_data_for_its_own_and_no_other) {
    EntropyIndex index = begun(kThreeComponents, IndexLevel::kRows);
    CHECK(index.accepts(100));
    CHECK(index.accepts(200));  // it knows nothing yet
    Checkpoint checkpoint;
    checkpoint.position_bits = 1;
    index.append(checkpoint);
    CHECK(!index.accepts(199));
    CHECK(!index.accepts(201));
    CHECK(index.accepts(200));
    index.forget();
    CHECK(index.accepts(199));
    CHECK_EQUAL(index.data_bytes(), 199U);
}

}  // namespace fastload::jpeg

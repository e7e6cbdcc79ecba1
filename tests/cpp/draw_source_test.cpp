#include "image/random/draw_source.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "base/mt19937_stream.h"
#include "check.h"

namespace fastload {

TEST_CASE(words_equal_the_standard_librarys_mt19937) {
    for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{5489}, std::uint64_t{0xffffffffU}}) {
        Mt19937Stream stream(seed);
        std::mt19937 reference(static_cast<std::uint32_t>(seed));
        for (int i = 0; i < 2000; ++i) CHECK_EQUAL(stream.next_uint32(), reference());
    }
}

TEST_CASE(only_the_low_half_of_a_seed_counts) {
    Mt19937Stream narrow(7);
    Mt19937Stream wide((std::uint64_t{3} << 32) | 7);
    for (int i = 0; i < 10; ++i) CHECK_EQUAL(narrow.next_uint32(), wide.next_uint32());
}

// A Python test compares torch's own results for such states.
TEST_CASE(a_stream_continues_from_a_stored_state_at_every_position) {
    for (const int drawn : {0, 1, 623, 624, 625, 1300}) {
        Mt19937Stream stream(11);
        for (int i = 0; i < drawn; ++i) stream.next_uint32();
        std::vector<std::uint8_t> state(Mt19937Stream::kTorchStateBytes, 0);
        state[12] = 1;  // seeded
        stream.store_torch_state(state.data());
        Mt19937Stream continued(5);
        CHECK(continued.load_torch_state({state.data(), state.size()}));
        for (int i = 0; i < 700; ++i) CHECK_EQUAL(continued.next_uint32(), stream.next_uint32());
    }
}

TEST_CASE(bytes_that_are_no_generator_state_are_refused_and_change_nothing) {
    std::vector<std::uint8_t> state(Mt19937Stream::kTorchStateBytes, 0);
    Mt19937Stream(3).store_torch_state(state.data());
    Mt19937Stream stream(3);
    const auto is_refused = [&](std::size_t offset, std::uint8_t value, std::size_t size) {
        std::vector<std::uint8_t> changed = state;
        changed[12] = 1;
        changed[offset] = value;
        return !stream.load_torch_state({changed.data(), size});
    };
    CHECK(!is_refused(12, 1, state.size()));
    CHECK(is_refused(12, 1, state.size() - 1));
    CHECK(is_refused(12, 0, state.size()));  // not seeded
    CHECK(is_refused(8, 0, state.size()));   // left 0
    CHECK(is_refused(8, 9, state.size()));   // left 9, next 0
    CHECK(is_refused(18, 1, state.size()));  // next 65536
    CHECK_EQUAL(stream.next_uint32(), Mt19937Stream(3).next_uint32());
}

TEST_CASE(numbers_are_made_of_words_as_torch_makes_them) {
    Mt19937Stream words(3);
    TorchDraws plain(words, {false, false});
    TorchDraws fused(words, {true, false});
    bool have_differed = false;
    for (int i = 0; i < 1000; ++i) {
        const float unit = std::ldexp(static_cast<float>(words.next_uint32() & 0xffffffU), -24);
        const float separate = plain.uniform(0.08F, 1.0F);
        const float once = fused.uniform(0.08F, 1.0F);
        CHECK_EQUAL(separate, unit * (1.0F - 0.08F) + 0.08F);
        CHECK_EQUAL(once, std::fma(unit, 1.0F - 0.08F, 0.08F));
        have_differed = have_differed || once != separate;
    }
    CHECK(have_differed);
    CHECK_EQUAL(plain.below(14), words.next_uint32() % 14);
    CHECK_EQUAL(plain.uniform(), std::ldexp(static_cast<float>(words.next_uint32() & 0xffffffU), -24));
}

TEST_CASE(a_draw_rounded_up_to_the_upper_bound_becomes_the_lower_one_if_torch_does_so) {
    const std::uint32_t highest = TorchExp::kNumDraws - 1;
    for (const bool is_fused : {false, true}) {
        CHECK_EQUAL(scaled_uniform(highest, 0.9F, 1.0F, {is_fused, false}), 1.0F);
        CHECK_EQUAL(scaled_uniform(highest, 0.9F, 1.0F, {is_fused, true}), 0.9F);
        CHECK_EQUAL(scaled_uniform(highest - 100, 0.9F, 1.0F, {is_fused, true}),
                    scaled_uniform(highest - 100, 0.9F, 1.0F, {is_fused, false}));
        CHECK_EQUAL(TorchExp(0.9F, 1.0F, {is_fused, true})(highest), rounded_exp(0.9F));
        CHECK_EQUAL(scaled_uniform(highest, 2.0F, 2.0F, {is_fused, true}), 2.0F);
    }
}

TEST_CASE(a_permutation_has_every_number_once_and_takes_a_word_less_than_its_size) {
    TorchDraws draws(Mt19937Stream(21), UniformRule{});
    Mt19937Stream words(21);
    std::array<std::uint8_t, 100> order{};
    draws.permutation(order.data(), order.size());
    for (int i = 0; i < 99; ++i) words.next_uint32();
    CHECK_EQUAL(draws.stream().next_uint32(), words.next_uint32());
    std::sort(order.begin(), order.end());
    for (std::size_t i = 0; i < order.size(); ++i) CHECK_EQUAL(order[i], i);
    draws.permutation(nullptr, 0);
}

TEST_CASE(counter_draws_are_named_by_the_step) {
    CounterDraws draws(1, 2, 3);
    draws.begin_step(4);
    const float fourth = draws.uniform();
    draws.begin_step(5);
    CHECK(draws.uniform() != fourth);
    draws.begin_step(4);
    CHECK_EQUAL(draws.uniform(), fourth);
    CounterDraws second(1, 2, 3, 1);
    second.begin_step(4);
    CHECK(second.uniform() != fourth);
    for (int i = 0; i < 1000; ++i) {
        const float value = draws.uniform(-2.0F, 3.0F);
        CHECK(value >= -2.0F && value <= 3.0F);
    }
}

TEST_CASE(torch_exp_gives_back_what_it_was_told) {
    TorchExp exp(-0.3F, 0.3F, {true, false});
    std::vector<float> values(1000);
    exp.fill_inputs(500, values.size(), values.data());
    for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = rounded_exp(values[i]);
        if (i % 7 == 3) values[i] = std::nextafter(values[i], 0.0F);
        if (i % 7 == 5) values[i] = std::nextafter(values[i], std::numeric_limits<float>::infinity());
    }
    CHECK(exp.add(500, {values.data(), values.size()}));
    CHECK_EQUAL(exp.num_corrections(), 286U);  // positions 3 and 5 of each seven
    for (std::uint32_t i = 0; i < values.size(); ++i) CHECK_EQUAL(exp(500 + i), values[i]);
    values[0] *= 1.001F;
    CHECK(!TorchExp(-0.3F, 0.3F, {true, false}).add(500, {values.data(), values.size()}));
}

}  // namespace fastload

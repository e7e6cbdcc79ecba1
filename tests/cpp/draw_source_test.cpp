#include "image/random/draw_source.h"

#include "base/mt19937_stream.h"
#include "check.h"

namespace fastload {

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
    const std::uint32_t highest = UniformNumbers::count() - 1;
    for (const bool is_fused : {false, true}) {
        CHECK_EQUAL(scaled_uniform(highest, 0.9F, 1.0F, {is_fused, false}), 1.0F);
        CHECK_EQUAL(scaled_uniform(highest, 0.9F, 1.0F, {is_fused, true}), 0.9F);
        CHECK_EQUAL(scaled_uniform(highest - 100, 0.9F, 1.0F, {is_fused, true}),
                    scaled_uniform(highest - 100, 0.9F, 1.0F, {is_fused, false}));
        CHECK_EQUAL(TorchExp(0.9F, 1.0F, {is_fused, true})(highest), rounded_exp(0.9F));
        CHECK_EQUAL(scaled_uniform(highest, 2.0F, 2.0F, {is_fused, true}), 2.0F);
    }
}

}  // namespace fastload

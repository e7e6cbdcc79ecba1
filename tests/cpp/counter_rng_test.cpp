#include "base/counter_rng.h"

#include "check.h"

namespace fastload {
namespace {

using Words = std::array<std::uint32_t, 4>;

}  // namespace

// Random123's kat_vectors, the rows "philox4x32 10".
TEST_CASE(philox_gives_the_published_vectors) {
    CHECK((philox4x32_10({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U}));
    CHECK((philox4x32_10({0xffffffffU, 0xffffffffU, 0xffffffffU, 0xffffffffU}, {0xffffffffU, 0xffffffffU}) ==
           Words{0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU}));
    CHECK((philox4x32_10({0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U}, {0xa4093822U, 0x299f31d0U}) ==
           Words{0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U}));
}

TEST_CASE(draw_number_is_the_last_word_of_the_counter) {
    const Words key = philox4x32_10({2, 1, 3, 0x464C4431U}, {0x89ABCDEFU, 0x01234567U});
    const Words block = philox4x32_10({5, 7, 1, 0xFEDCBA98U}, {key[0], key[1]});
    CounterRng rng(0x0123456789ABCDEFU, 0x100000002U, 0x700000005U, 3, DrawDomain::kTransforms, 0xFEDCBA98U);
    for (std::size_t i = 0; i < 4; ++i) rng.next_uint32();
    for (std::size_t i = 0; i < 4; ++i) CHECK_EQUAL(rng.next_uint32(), block[i]);
}

TEST_CASE(draws_by_weights_are_pinned_by_their_documented_layout) {
    const Words key = philox4x32_10({2, 1, 0, 0x464C5731U}, {0x89ABCDEFU, 0x01234567U});
    const Words block = philox4x32_10({5, 7, 0, 0}, {key[0], key[1]});
    const double whole = 4294967296.0 * block[1] + block[0];
    CounterRng rng(0x0123456789ABCDEFU, 0x100000002U, 0x700000005U, 0, DrawDomain::kWeights);
    const double draw = rng.next_double();
    CHECK(draw >= 0.0);
    CHECK(draw < 1.0);
    CHECK(std::fabs(draw - whole * 0x1p-64) < 0x1p-52);
    CHECK_EQUAL(draw * 0x1p53, std::floor(draw * 0x1p53));
}

// With n = 3 * 2^30 a plain multiply-and-shift would make a third of the values twice as likely.
TEST_CASE(counter_rng_below_throws_biased_draws_away) {
    CounterRng rng(2, 0, 0, 0);
    int low_third = 0;
    for (int i = 0; i < 30000; ++i) low_third += rng.below(0xC0000000U) % 3 == 0 ? 1 : 0;
    CHECK(low_third > 9600);
    CHECK(low_third < 10400);
}

}  // namespace fastload

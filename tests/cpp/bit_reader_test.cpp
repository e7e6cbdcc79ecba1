#include "codec/jpeg/bit_reader.h"

#include "check.h"

namespace fastload::jpeg {
namespace {

std::uint64_t bit_at(const std::vector<std::uint8_t>& bytes, std::uint64_t position) {
    return bytes[position / 8] >> (7 - position % 8) & 1U;
}

}  // namespace

TEST_CASE(bit_reader_gives_the_bits_of_the_stream_in_order) {
    std::mt19937 random(1);
    std::vector<std::uint8_t> bytes(4000);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
    BitReader reader(bytes.data());
    std::uint64_t position = 0;
    while (position < 8 * 3900) {
        reader.refill();
        CHECK(reader.count >= 56 && reader.count <= 63);
        CHECK_EQUAL(reader.position_bits(bytes.data()), position);
        int budget = 56;
        while (true) {
            const int length = 1 + static_cast<int>(random() % 27);
            if (length > budget) break;
            budget -= length;
            for (int i = 0; i < length; ++i)
                CHECK_EQUAL(reader.bits << i >> 63, bit_at(bytes, position + static_cast<unsigned>(i)));
            reader.skip(length);
            position += static_cast<std::uint64_t>(length);
        }
    }
}

TEST_CASE(bit_reader_refill_right_after_refill_changes_nothing) {
    const std::vector<std::uint8_t> bytes(64, 0xA5);
    BitReader reader(bytes.data());
    reader.refill();
    reader.skip(13);
    reader.refill();
    const BitReader before = reader;
    reader.refill();
    CHECK_EQUAL(reader.position_bits(bytes.data()), before.position_bits(bytes.data()));
    CHECK_EQUAL(reader.bits >> 8, before.bits >> 8);
}

TEST_CASE(extend_follows_t81_for_all_sizes) {
    CHECK_EQUAL(extend(~std::uint64_t{0}, 0), 0);
    CHECK_EQUAL(extend(0, 0), 0);
    for (int size = 1; size <= 16; ++size) {
        for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << size); bits += size < 12 ? 1 : 37) {
            // T.81 F.2.2.1: V below 2^(size - 1) means V + (-1 << size) + 1.
            const auto value = static_cast<std::int32_t>(bits);
            const std::int32_t expected = value < (1 << (size - 1)) ? value - (1 << size) + 1 : value;
            const std::uint64_t behind = 0x0123456789ABCDEFU >> size;
            CHECK_EQUAL(extend(bits << (64 - size) | behind, size), expected);
        }
    }
}

}  // namespace fastload::jpeg


#include "kernels/unstuff.h"
#include "check.h"
#include "jpeg_bytes.h"

namespace fastload {
namespace {

using testing::Bytes;

struct Expected {
    Bytes clean;
    std::vector<std::uint32_t> restarts;
    std::size_t source_bytes = 0;
    ScanEnd end = ScanEnd::kDataEnd;
};

// One byte after the other, as in the contract in unstuff.h.
Expected unstuff_slowly(const Bytes& source, std::size_t restart_room) {
    Expected expected;
    std::size_t at = 0;
    while (at < source.size()) {
        if (source[at] != 0xFF) {
            expected.clean.push_back(source[at++]);
            continue;
        }
        if (at + 1 == source.size()) break;
        const std::uint8_t code = source[at + 1];
        if (code == 0) {
            expected.clean.push_back(0xFF);
        } else if (code >= 0xD0 && code <= 0xD7) {
            if (code != 0xD0 + expected.restarts.size() % 8) {
                expected.end = ScanEnd::kRestartOutOfOrder;
                break;
            }
            if (expected.restarts.size() == restart_room) {
                expected.end = ScanEnd::kTooManyRestarts;
                break;
            }
            expected.restarts.push_back(static_cast<std::uint32_t>(expected.clean.size()));
        } else {
            expected.end = code == 0xFF ? ScanEnd::kFillBytes : ScanEnd::kMarker;
            break;
        }
        at += 2;
    }
    expected.source_bytes = at;
    return expected;
}

void check_unstuff(const Bytes& source, std::size_t restart_room) {
    const Expected expected = unstuff_slowly(source, restart_room);
    // Exact sizes, so that the address sanitizer detects a read or write after them.
    const std::vector<std::uint8_t> input(source);
    std::vector<std::uint8_t> clean(source.size());
    std::vector<std::uint32_t> offsets(restart_room);
    const UnstuffedScan scan = unstuff({input.data(), input.size()}, clean.data(), {offsets.data(), offsets.size()});
    CHECK_EQUAL(scan.clean_bytes, expected.clean.size());
    CHECK_EQUAL(scan.source_bytes, expected.source_bytes);
    CHECK_EQUAL(static_cast<int>(scan.end), static_cast<int>(expected.end));
    CHECK_EQUAL(scan.restart_count, expected.restarts.size());
    CHECK(std::equal(expected.clean.begin(), expected.clean.end(), clean.begin()));
    offsets.resize(scan.restart_count);
    CHECK(offsets == expected.restarts);
}

}  // namespace

TEST_CASE(unstuff_takes_every_pair_at_every_place_around_64_bytes) {
    const Bytes pairs[] = {{0xFF, 0x00}, {0xFF, 0xD0}, {0xFF, 0xD1}, {0xFF, 0xD9}, {0xFF, 0xFF}, {0xFF, 0x01},
                           {0xFF, 0xDA}, {0x00, 0xFF}, {0xFF, 0xD7}, {0xFF, 0xCF}, {0xFF, 0xD8}};
    for (std::size_t size = 0; size <= 200; ++size) {
        const Bytes plain(size, 0x5A);
        check_unstuff(plain, 0);
        if (size > 136 || size < 2) continue;
        for (const Bytes& pair : pairs) {
            for (std::size_t at = 0; at + 2 <= size; ++at) {
                Bytes source = plain;
                source[at] = pair[0];
                source[at + 1] = pair[1];
                check_unstuff(source, 1);
            }
        }
    }
}

TEST_CASE(unstuff_equals_the_slow_reading_on_random_bytes_rich_in_ff) {
    std::mt19937 random(1);
    for (int round = 0; round < 3000; ++round) {
        Bytes source(random() % 300);
        unsigned restarts = 0;
        for (std::size_t i = 0; i < source.size(); ++i) {
            const auto kind = static_cast<unsigned>(random() % 40);
            source[i] = static_cast<std::uint8_t>(random());
            if (kind < 6 && i + 1 < source.size()) {
                source[i++] = 0xFF;
                source[i] = kind < 4 ? 0x00 : static_cast<std::uint8_t>(0xD0 + restarts++ % 8);
            } else if (source[i] == 0xFF && kind != 39) {
                source[i] = 0x11;
            }
        }
        check_unstuff(source, random() % 3 == 0 ? 2 : 100);
    }
}

TEST_CASE(unstuff_restart_numbers_wrap_after_7) {
    Bytes source;
    for (int i = 0; i < 20; ++i) source.insert(source.end(), {0x12, 0xFF, static_cast<std::uint8_t>(0xD0 + i % 8)});
    source.insert(source.end(), {0x34, 0xFF, 0xD9});
    check_unstuff(source, 20);
    check_unstuff(source, 19);
}

}  // namespace fastload

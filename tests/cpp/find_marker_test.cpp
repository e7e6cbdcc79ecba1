
#include "check.h"
#include "jpeg_bytes.h"
#include "kernel_variants.h"

namespace fastload {
namespace {

using testing::Bytes;

std::size_t find_slowly(const Bytes& bytes) {
    for (std::size_t at = 0; at + 1 < bytes.size(); ++at) {
        if (bytes[at] == 0xFF && bytes[at + 1] != 0) return at;
    }
    return bytes.size();
}

void check_find(const Bytes& bytes) {
    const Bytes exact(bytes);  // so that the address sanitizer detects a read after it
    for_each_kernel_table([&](const KernelTable& kernels) {
        CHECK_EQUAL(kernels.find_marker({exact.data(), exact.size()}), find_slowly(bytes));
    });
}

}  // namespace

TEST_CASE(a_marker_is_found_at_every_place_around_64_bytes) {
    const Bytes pairs[] = {{0xFF, 0x00}, {0xFF, 0xD0}, {0xFF, 0xD9}, {0xFF, 0xFF}, {0xFF, 0x01}, {0x00, 0xFF}};
    for (std::size_t size = 0; size <= 200; ++size) {
        for (const std::uint8_t filler : Bytes{0x5A, 0x00}) {
            const Bytes plain(size, filler);
            check_find(plain);
            for (const Bytes& pair : pairs) {
                for (std::size_t at = 0; at + 2 <= size; ++at) {
                    Bytes bytes = plain;
                    bytes[at] = pair[0];
                    bytes[at + 1] = pair[1];
                    check_find(bytes);
                }
            }
        }
    }
}

TEST_CASE(the_first_of_many_markers_is_found_among_stuffed_bytes) {
    std::mt19937 random(1);
    for (int round = 0; round < 3000; ++round) {
        Bytes bytes(random() % 400);
        const unsigned every = 1 + static_cast<unsigned>(random() % 400);
        for (std::size_t at = 0; at < bytes.size(); ++at) {
            bytes[at] = static_cast<std::uint8_t>(random());
            if (random() % 5 == 0) bytes[at] = 0xFF;
            const bool is_stuffed = at > 0 && bytes[at - 1] == 0xFF && random() % every != 0;
            if (is_stuffed) bytes[at] = 0;
        }
        check_find(bytes);
    }
}

}  // namespace fastload

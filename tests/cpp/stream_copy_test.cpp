
#include "check.h"
#include "kernel_variants.h"

namespace fastload {
namespace {

using Bytes = std::vector<std::uint8_t>;

// Copies with both memories at any place in a vector, and checks that nothing around is written.
void check_copy(const KernelTable& kernels, std::size_t size, std::size_t from_offset, std::size_t to_offset) {
    Bytes from(from_offset + size);  // so that the address sanitizer detects a read after it
    for (std::size_t at = 0; at < from.size(); ++at) from[at] = static_cast<std::uint8_t>(at * 7 + 1);
    Bytes to(to_offset + size + 1);
    kernels.stream_copy(to.data() + to_offset, from.data() + from_offset, size);
    bool is_equal = to[to_offset + size] == 0;
    for (std::size_t at = 0; at < to_offset; ++at) is_equal = is_equal && to[at] == 0;
    for (std::size_t at = 0; at < size; ++at) is_equal = is_equal && to[to_offset + at] == from[from_offset + at];
    CHECK(is_equal);
}

}  // namespace

TEST_CASE(a_streamed_copy_has_all_bytes_for_any_size_and_place) {
    for_each_kernel_table([](const KernelTable& kernels) {
        for (std::size_t size = 0; size < 300; ++size) {
            for (const std::size_t offset : {0U, 1U, 16U, 31U, 32U}) {
                check_copy(kernels, size, 0, offset);
                check_copy(kernels, size, offset, 3);
            }
        }
        check_copy(kernels, 1'000'003, 5, 9);
    });
}

}  // namespace fastload

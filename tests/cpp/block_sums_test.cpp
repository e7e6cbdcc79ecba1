#include "kernels/block_sums.h"

#include "check.h"
#include "kernel_variants.h"

namespace fastload {
namespace {

constexpr std::size_t kBlockBytes = 8 * HashKey::kBlockWords;

std::vector<std::size_t> sizes() {
    std::vector<std::size_t> sizes(300);
    for (std::size_t i = 0; i < sizes.size(); ++i) sizes[i] = i;
    for (std::size_t size = kBlockBytes - 70; size <= kBlockBytes; ++size) sizes.push_back(size);
    return sizes;
}

void check_equal(const KernelTable& table, const std::vector<std::uint64_t>& key, ByteSpan block) {
    for (const Chains chains : {Chains::kFirst, Chains::kBoth}) {
        const BlockSums expected = block_sums_scalar(key.data(), block, chains);
        const BlockSums found = table.block_sums(key.data(), block, chains);
        CHECK(std::equal(std::begin(found.sums), std::end(found.sums), expected.sums));
    }
}

}  // namespace

TEST_CASE(block_sums_equal_the_scalar_kernels) {
    for_each_kernel_table([](const KernelTable& table) {
        std::mt19937_64 random(1);
        std::vector<std::uint64_t> key(HashKey::kBlockKeyWords);
        for (std::uint64_t& word : key) word = random();
        for (const std::size_t size : sizes()) {
            const std::size_t offset = random() % 64;
            // An exact copy, so that the address sanitizer detects a read after the end.
            const std::unique_ptr<std::uint8_t[]> bytes(new std::uint8_t[offset + size]);
            for (std::size_t i = 0; i < offset + size; ++i) bytes[i] = static_cast<std::uint8_t>(random());
            check_equal(table, key, {bytes.get() + offset, size});
        }
    });
}

TEST_CASE(block_sums_wrap_alike_at_the_largest_numbers) {
    for_each_kernel_table([](const KernelTable& table) {
        for (const std::uint64_t word : {std::uint64_t{0}, std::uint64_t{1}, 0xffffffff00000000U, ~std::uint64_t{0}}) {
            const std::vector<std::uint64_t> key(HashKey::kBlockKeyWords, word);
            for (const int byte : {0, 1, 0x7f, 0x80, 0xff}) {
                const std::vector<std::uint8_t> block(kBlockBytes, static_cast<std::uint8_t>(byte));
                check_equal(table, key, {block.data(), block.size()});
            }
        }
    });
}

TEST_CASE(the_first_chain_has_the_first_two_sums_of_both) {
    const std::vector<std::uint64_t> key(HashKey::kBlockKeyWords, 0x0123456789abcdefU);
    const std::vector<std::uint8_t> block(1000, 77);
    const ByteSpan bytes{block.data(), block.size()};
    const BlockSums both = block_sums_scalar(key.data(), bytes, Chains::kBoth);
    const BlockSums first = block_sums_scalar(key.data(), bytes, Chains::kFirst);
    CHECK(first.sums[0] == both.sums[0] && first.sums[1] == both.sums[1]);
    CHECK(first.sums[2] == 0 && first.sums[3] == 0);
}

TEST_CASE(contents_have_the_same_hash_with_every_kernel) {
    HashKey key;
    std::mt19937_64 random(2);
    for (std::uint64_t& word : key.words) word = random();
    std::vector<std::uint8_t> contents(3 * kBlockBytes + 17);
    for (std::uint8_t& byte : contents) byte = static_cast<std::uint8_t>(random());
    const ByteSpan bytes{contents.data(), contents.size()};
    const ContentHash expected = content_hash(key, bytes);
    for_each_kernel_table([&](const KernelTable& table) {
        use_block_sums(table.block_sums);
        CHECK(content_hash(key, bytes) == expected);
        CHECK_EQUAL(content_sum(key, bytes), expected.low);
    });
    use_block_sums(block_sums_scalar);
}

}  // namespace fastload

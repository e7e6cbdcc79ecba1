#include "kernels/coefficients.h"

#include <set>

#include "check.h"
#include "guarded_memory.h"
#include "kernel_variants.h"
#include "kernels/idct.h"
#include "rounds.h"

namespace fastload {
namespace {

using testing::GuardedMemory;

constexpr std::uint8_t kGuard = 0xA7;

struct alignas(64) Block {
    std::int16_t coefficients[64] = {};
};
using Blocks = std::vector<Block>;
using Bytes = std::vector<std::uint8_t>;

struct alignas(64) Quantization {
    std::uint16_t steps[64] = {};
};

// More than any of these tests needs; reused, because a mapping takes longer than a kernel.
struct Memory {
    GuardedMemory coefficients{4096};
    GuardedMemory packed{4096};
    GuardedMemory strip{4096};
};
const Memory& memory() {
    static const Memory memory;
    return memory;
}

Block block_of(std::initializer_list<std::pair<int, int>> values) {
    Block block;
    for (const auto& [position, value] : values) block.coefficients[position] = static_cast<std::int16_t>(value);
    return block;
}

// The output of a table's pack_blocks(), in memory with the room that its contract requires and no more.
Bytes packed(const KernelTable& kernels, const Blocks& blocks) {
    std::uint8_t* const input = memory().coefficients.last(blocks.size() * sizeof(Block));
    if (!blocks.empty()) std::memcpy(input, blocks.data(), blocks.size() * sizeof(Block));
    const std::size_t room = blocks.size() * kMaxPackedBlockBytes + kPackedSlackBytes;
    std::uint8_t* const output = memory().packed.last(room);
    std::memset(output, kGuard, room);
    const std::uint8_t* const end =
        kernels.pack_blocks(reinterpret_cast<const std::int16_t*>(input), blocks.size(), output);
    CHECK(end != nullptr);
    return end == nullptr ? Bytes() : Bytes(static_cast<const std::uint8_t*>(output), end);
}

// The result of reconstruct_blocks() for bytes that end where the memory ends.
struct Reconstruction {
    std::ptrdiff_t used_bytes = -1;  // -1: nullptr
    Bytes samples;

    bool operator==(const Reconstruction& other) const {
        return used_bytes == other.used_bytes && (used_bytes < 0 || samples == other.samples);
    }
};

// Packed bytes with their slack before a guard page; one at a time. The slack is full of ones: heads of the largest
// class.
class PackedInput {
  public:
    explicit PackedInput(const Bytes& bytes)
        : start_(memory().packed.last(bytes.size() + kPackedSlackBytes)), end_(start_ + bytes.size()) {
        if (!bytes.empty()) std::memcpy(start_, bytes.data(), bytes.size());
        std::memset(end_, 0xFF, kPackedSlackBytes);
    }

    std::ptrdiff_t skip(const KernelTable& kernels, std::size_t count) const {
        return distance(kernels.skip_blocks(start_, end_, count));
    }
    // Checks that nothing before the blocks is written; nothing after them can be.
    Reconstruction reconstruct(const KernelTable& kernels, std::size_t count, const Quantization& quantization) const {
        std::uint8_t* const samples = memory().strip.last(64 * count);
        std::memset(samples - 64, kGuard, 64);
        Reconstruction result;
        result.used_bytes = distance(kernels.reconstruct_blocks(start_, end_, count, quantization.steps, samples));
        CHECK(std::all_of(samples - 64, samples, [](std::uint8_t byte) { return byte == kGuard; }));
        result.samples.assign(samples, samples + 64 * count);
        return result;
    }

  private:
    std::ptrdiff_t distance(const std::uint8_t* place) const { return place == nullptr ? -1 : place - start_; }

    std::uint8_t* start_;
    std::uint8_t* end_;
};

Bytes inverse_dct_of(const KernelTable& kernels, const Blocks& blocks, const Quantization& quantization) {
    struct alignas(64) Strip {
        std::uint8_t samples[64];
    } strip;
    Bytes samples;
    for (Block block : blocks) {
        kernels.inverse_dct(block.coefficients, quantization.steps, strip.samples);
        samples.insert(samples.end(), strip.samples, strip.samples + 64);
    }
    return samples;
}

// The note, implemented literally: the coefficients of one block, and its end. Missing bytes are zero.
struct Model {
    Block block;
    std::size_t end = 0;

    explicit Model(const Bytes& bytes, std::size_t start) {
        const auto byte = [&bytes](std::size_t i) { return i < bytes.size() ? int{bytes[i]} : 0; };
        const int head = byte(start) | byte(start + 1) << 8;
        const int dc = (head & 0xFFF) < 2048 ? head & 0xFFF : (head & 0xFFF) - 4096;
        const int index = head >> 12;
        std::size_t nibble = 2 * (start + 2);
        const auto take = [&byte, &nibble](int nibbles) {
            int value = 0;
            for (int i = 0; i < nibbles; ++i, ++nibble) {
                value |= (byte(nibble / 2) >> (nibble % 2 * 4) & 15) << 4 * i;
            }
            const int half = 1 << (4 * nibbles - 1);
            return value < half ? value : value - 2 * half;
        };
        const int mask_bytes = index == 0 ? 0 : 2 << (index - 1) / 5;
        std::vector<int> positions;
        for (int i = 0; i < 8 * mask_bytes; ++i) {
            if ((byte(start + 2 + static_cast<std::size_t>(i) / 8) >> i % 8 & 1) != 0) positions.push_back(i);
        }
        nibble += 2 * static_cast<std::size_t>(mask_bytes);
        constexpr int kNibbles[5][2] = {{1, 1}, {2, 1}, {2, 2}, {4, 1}, {4, 4}};
        for (int group = 0; group < 2; ++group) {
            for (const int position : positions) {
                if ((position < 16) != (group == 0)) continue;
                block.coefficients[position] =
                    static_cast<std::int16_t>(take(kNibbles[index == 0 ? 0 : (index - 1) % 5][group]));
            }
            nibble += nibble % 2;
        }
        block.coefficients[0] = static_cast<std::int16_t>(dc);
        end = nibble / 2;
    }
};

Blocks unpacked(const Bytes& bytes, std::size_t count) {
    Blocks blocks;
    std::size_t start = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const Model model(bytes, start);
        blocks.push_back(model.block);
        start = model.end;
    }
    CHECK_EQUAL(start, bytes.size());
    return blocks;
}

bool are_equal(const Blocks& a, const Blocks& b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(Block)) == 0);
}

Quantization quantization_of(std::uint16_t step) {
    Quantization quantization;
    std::fill_n(quantization.steps, 64, step);
    return quantization;
}

// Checks all promises of the three kernels for blocks that can be packed. Returns their bytes.
Bytes check_blocks(const Blocks& blocks, const Quantization& quantization) {
    Bytes bytes;
    for_each_kernel_table([&](const KernelTable& kernels) {
        const Bytes of_table = packed(kernels, blocks);
        if (bytes.empty()) bytes = of_table;
        CHECK(of_table == bytes);
        const PackedInput input(of_table);
        const auto size = static_cast<std::ptrdiff_t>(of_table.size());
        CHECK_EQUAL(input.skip(kernels, blocks.size()), size);
        const Reconstruction result = input.reconstruct(kernels, blocks.size(), quantization);
        CHECK_EQUAL(result.used_bytes, size);
        CHECK(result.samples == inverse_dct_of(kernels, blocks, quantization));
    });
    CHECK(are_equal(unpacked(bytes, blocks.size()), blocks));
    return bytes;
}

// Checks that all tables agree on bytes that a packer need not have written.
Reconstruction check_bytes(const Bytes& bytes, std::size_t count, const Quantization& quantization) {
    const PackedInput input(bytes);
    const KernelTable& scalar = *runnable_kernel_tables().end()[-1];
    const Reconstruction expected = input.reconstruct(scalar, count, quantization);
    for_each_kernel_table([&](const KernelTable& kernels) {
        CHECK_EQUAL(input.skip(kernels, count), expected.used_bytes);
        CHECK(input.reconstruct(kernels, count, quantization) == expected);
    });
    return expected;
}

int class_of(const Bytes& bytes) { return bytes[1] >> 4; }

constexpr int kBoundaries[] = {-2048, 2047, -8, 7, -9, 8, -128, 127, -129, 128, -32768, 32767};
constexpr int kBoundaryPositions[] = {1, 15, 16, 31, 32, 63};

std::int16_t random_value(std::mt19937& random, int bits) {
    const int range = 1 << bits;
    return static_cast<std::int16_t>(static_cast<int>(random() % static_cast<unsigned>(range)) - range / 2);
}

// Coefficients with at most the given number of bits in each group; more of them for larger `density`.
Block random_block(std::mt19937& random, unsigned density, int low_bits, int high_bits) {
    Block block;
    block.coefficients[0] = random_value(random, 12);
    const unsigned last = 1 + static_cast<unsigned>(random() % 64);
    for (unsigned k = 1; k < last; ++k) {
        if (random() % 64 < density) block.coefficients[k] = random_value(random, k < 16 ? low_bits : high_bits);
    }
    return block;
}

Quantization random_quantization(std::mt19937& random, unsigned steps) {
    Quantization quantization;
    for (std::uint16_t& step : quantization.steps) step = static_cast<std::uint16_t>(1 + random() % steps);
    return quantization;
}

Bytes random_bytes(std::mt19937& random, std::size_t size) {
    Bytes bytes(size);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
    return bytes;
}

}  // namespace

TEST_CASE(packed_block_bytes_match_the_note) {
    const Quantization quantization = quantization_of(3);
    CHECK((check_blocks({block_of({{0, -1}})}, quantization) == Bytes{0xFF, 0x0F}));
    CHECK((check_blocks({block_of({{0, -2048}})}, quantization) == Bytes{0x00, 0x08}));
    // A mask of 2 bytes, nibbles: 1 at 1, -2 at 3; an odd count is filled with zero.
    CHECK((check_blocks({block_of({{0, 5}, {1, 1}, {3, -2}})}, quantization) == Bytes{0x05, 0x10, 0x0A, 0x00, 0xE1}));
    CHECK((check_blocks({block_of({{15, -8}})}, quantization) == Bytes{0x00, 0x10, 0x00, 0x80, 0x08}));
    // 4 bytes; bytes for the low group and nibbles for the high one, which begins at a byte.
    CHECK((check_blocks({block_of({{0, 2047}, {2, 100}, {16, 7}, {17, -1}, {31, 3}})}, quantization) ==
           Bytes{0xFF, 0x77, 0x04, 0x00, 0x03, 0x80, 0x64, 0xF7, 0x03}));
    // Mask of 8 bytes and only the high group: bytes for both, because no pair has nibbles before bytes.
    CHECK((check_blocks({block_of({{63, -9}})}, quantization) == Bytes{0, 0xD0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0xF7}));
    // Values of 2 bytes before nibbles, and for both groups.
    CHECK((check_blocks({block_of({{1, 128}, {32, 1}})}, quantization) ==
           Bytes{0, 0xE0, 2, 0, 0, 0, 1, 0, 0, 0, 0x80, 0x00, 0x01}));
    CHECK((check_blocks({block_of({{1, 1}, {16, -32768}})}, quantization) ==
           Bytes{0, 0xA0, 2, 0, 1, 0, 0x01, 0x00, 0x00, 0x80}));
    // Blocks follow each other without a gap.
    CHECK((check_blocks({block_of({{1, 7}}), block_of({{0, 1}}), block_of({{2, -1}})}, quantization) ==
           Bytes{0x00, 0x10, 0x02, 0x00, 0x07, 0x01, 0x00, 0x00, 0x10, 0x04, 0x00, 0x0F}));
}

TEST_CASE(packed_blocks_hold_boundary_values_at_the_ends_of_groups) {
    for (const int position : kBoundaryPositions) {
        for (const int value : kBoundaries) {
            check_blocks({block_of({{0, 3}, {position, value}})}, quantization_of(2));
            for (const int other : kBoundaryPositions) {
                for (const int other_value : kBoundaries) {
                    check_blocks({block_of({{position, value}, {other, other_value}})}, quantization_of(1));
                }
            }
        }
    }
    for (const int value : kBoundaries) {
        Block full;
        std::fill_n(full.coefficients, 64, static_cast<std::int16_t>(value));
        full.coefficients[0] = -2048;
        const Bytes bytes = check_blocks({full, full}, quantization_of(1));
        CHECK(bytes.size() <= 2 * kMaxPackedBlockBytes);
        CHECK((bytes.size() == 2 * kMaxPackedBlockBytes) == (value < -128 || value > 127));
    }
}

TEST_CASE(packed_blocks_have_the_smallest_class_that_holds_them) {
    constexpr int kLargest[3] = {7, 127, 32767};
    constexpr int kPairs[3][3] = {{0, 2, 4}, {1, 2, 4}, {3, 4, 4}};  // [low][high]
    std::set<int> seen;
    for (int m = 0; m < 3; ++m) {
        for (int low = 0; low < 3; ++low) {
            for (int high = 0; high < (m == 0 ? 1 : 3); ++high) {
                Block block = block_of({{7, kLargest[low]}});
                if (m > 0) block.coefficients[m == 1 ? 31 : 32] = static_cast<std::int16_t>(-kLargest[high] - 1);
                const int index = class_of(check_blocks({block}, quantization_of(1)));
                CHECK_EQUAL(index, 1 + 5 * m + kPairs[low][high]);
                seen.insert(index);
            }
        }
    }
    // Without a high group its width is never more than a nibble.
    CHECK((seen == std::set<int>{1, 2, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}));
}

TEST_CASE(packed_blocks_hold_random_blocks_of_every_density) {
    std::mt19937 random(1);
    for (int round = 0; round < 4000; ++round) {
        const auto density = static_cast<unsigned>(random() % 65);
        const int low_bits = 1 + static_cast<int>(random() % (round % 4 == 0 ? 16 : 8));
        const int high_bits = 1 + static_cast<int>(random() % (round % 8 == 0 ? 16 : 8));
        Blocks blocks;
        const std::size_t count = 1 + random() % 5;
        for (std::size_t i = 0; i < count; ++i) blocks.push_back(random_block(random, density, low_bits, high_bits));
        check_blocks(blocks, random_quantization(random, round % 3 == 0 ? 65535 : 64));
    }
}

// Values for which the short first pass of the inverse DCT wraps; see Note [short first pass].
TEST_CASE(packed_blocks_wrap_as_the_inverse_dct_does) {
    std::mt19937 random(2);
    for (int round = 0; round < 4000; ++round) {
        Block block;
        Quantization quantization = random_quantization(random, 65535);
        for (int k = 0; k < 64; ++k) {
            if (kNaturalOrder[k] >= 8 || random() % 2 == 0) continue;
            block.coefficients[k] = random_value(random, 1 + static_cast<int>(random() % 10));
            // A product near 8192, either way.
            const int divisor = std::max(1, std::abs(int{block.coefficients[k]}));
            if (random() % 2 == 0)
                quantization.steps[k] = static_cast<std::uint16_t>(8192 / divisor + static_cast<int>(random() % 3));
        }
        check_blocks({block}, quantization);
        block.coefficients[1 + random() % 63] = static_cast<std::int16_t>(random() % 2);
        check_blocks({block}, quantization);
    }
}

TEST_CASE(packed_blocks_may_be_none) {
    for_each_kernel_table([](const KernelTable& kernels) {
        CHECK(packed(kernels, {}).empty());
        const PackedInput input({});
        CHECK_EQUAL(input.skip(kernels, 0), 0);
        CHECK_EQUAL(input.reconstruct(kernels, 0, quantization_of(1)).used_bytes, 0);
        CHECK_EQUAL(input.skip(kernels, 1), -1);
        CHECK_EQUAL(input.reconstruct(kernels, 1, quantization_of(1)).used_bytes, -1);
    });
}

TEST_CASE(packed_blocks_are_refused_where_a_dc_coefficient_has_more_than_12_bits) {
    for_each_kernel_table([](const KernelTable& kernels) {
        for (const int dc : {-32768, -2049, -2048, 2047, 2048, 4096, 32767}) {
            const Blocks blocks = {block_of({{0, 1}, {40, 2}}), block_of({{0, dc}}), block_of({{0, dc}, {1, 1}})};
            Bytes room(blocks.size() * kMaxPackedBlockBytes + kPackedSlackBytes);
            for (std::size_t first = 0; first < 3; ++first) {
                const bool is_packed =
                    kernels.pack_blocks(blocks[first].coefficients, 3 - first, room.data()) != nullptr;
                CHECK_EQUAL(is_packed, dc >= -2048 && dc <= 2047);
            }
        }
    });
}

TEST_CASE(packed_blocks_that_end_too_late_are_refused_at_every_byte) {
    std::mt19937 random(3);
    for (int round = 0; round < 40; ++round) {
        Blocks blocks;
        for (int i = 0; i < 4; ++i) {
            blocks.push_back(random_block(random, static_cast<unsigned>(random() % 65), round % 2 == 0 ? 5 : 16, 4));
        }
        const Bytes whole = check_blocks(blocks, quantization_of(5));
        for (std::size_t size = 0; size < whole.size(); ++size) {
            const Bytes bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
            CHECK_EQUAL(check_bytes(bytes, blocks.size(), quantization_of(5)).used_bytes, -1);
        }
    }
}

TEST_CASE(packed_bytes_that_no_packer_writes_mean_what_the_note_says) {
    const Quantization quantization = quantization_of(7);
    const auto check_meaning = [&quantization](const Bytes& bytes, const Block& block) {
        const Reconstruction result = check_bytes(bytes, 1, quantization);
        CHECK_EQUAL(result.used_bytes, static_cast<std::ptrdiff_t>(bytes.size()));
        for_each_kernel_table([&](const KernelTable& kernels) {
            CHECK(result.samples == inverse_dct_of(kernels, {block}, quantization));
        });
    };
    // A mask of zeros.
    check_meaning({0x14, 0xB0, 0, 0, 0, 0, 0, 0, 0, 0}, block_of({{0, 0x14}}));
    // A larger mask than needed, larger widths than needed, values that are zero.
    check_meaning({0x14, 0xD0, 2, 0, 0, 0, 0, 0, 0, 0, 3}, block_of({{0, 0x14}, {1, 3}}));
    check_meaning({0x14, 0x50, 6, 0, 0, 0, 4, 0}, block_of({{0, 0x14}, {2, 4}}));
    // Any bits that fill the last byte of nibbles.
    check_meaning({0x14, 0x60, 2, 0, 1, 0, 0xC1, 0xA2}, block_of({{0, 0x14}, {1, 1}, {16, 2}}));
    // Bit 0 counts, and the DC coefficient replaces its value: in each width.
    check_meaning({0x14, 0x10, 3, 0, 0x35}, block_of({{0, 0x14}, {1, 3}}));
    check_meaning({0x14, 0x20, 3, 0, 5, 3}, block_of({{0, 0x14}, {1, 3}}));
    check_meaning({0x14, 0x40, 3, 0, 5, 5, 3, 0}, block_of({{0, 0x14}, {1, 3}}));
    check_meaning({0x14, 0x10, 1, 0, 5}, block_of({{0, 0x14}}));
    Bytes full = {0x14, 0xF0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};
    Block ones;
    for (int k = 0; k < 64; ++k) {
        full.insert(full.end(), {1, 0});
        ones.coefficients[k] = static_cast<std::int16_t>(k == 0 ? 0x14 : 1);
    }
    check_meaning(full, ones);
}

TEST_CASE(any_packed_bytes_mean_the_same_in_all_tables) {
    std::mt19937 random(4);
    std::uint64_t whole = 0;
    for (std::uint64_t round = 0; round < testing::rounds(100000); ++round) {
        Bytes bytes = random_bytes(random, random() % 200);
        // Half of the heads have few values, so that more than one block fits.
        for (std::size_t i = 0; i < bytes.size() && round % 2 == 0; ++i) {
            bytes[i] = static_cast<std::uint8_t>(bytes[i] & random());
        }
        const std::size_t count = 1 + random() % 4;
        const Quantization quantization = round % 8 == 0 ? random_quantization(random, 65535) : quantization_of(9);
        const Reconstruction result = check_bytes(bytes, count, quantization);
        if (result.used_bytes < 0) continue;
        ++whole;
        bytes.resize(static_cast<std::size_t>(result.used_bytes));
        const KernelTable& scalar = *runnable_kernel_tables().end()[-1];
        CHECK(result.samples == inverse_dct_of(scalar, unpacked(bytes, count), quantization));
    }
    CHECK(whole > testing::rounds(10000));
}

}  // namespace fastload

#include "codec/jpeg/huffman_table.h"

#include "base/aligned_buffer.h"
#include "check.h"
#include "codec/jpeg/entropy_baseline.h"
#include "kernel_variants.h"

namespace fastload::jpeg {
namespace {

HuffmanSpec spec_of(const std::vector<std::pair<int, int>>& counts, const std::vector<std::uint8_t>& symbols) {
    HuffmanSpec spec;
    spec.is_defined = true;
    for (const auto& [length, count] : counts) spec.code_counts[length - 1] = static_cast<std::uint8_t>(count);
    std::copy(symbols.begin(), symbols.end(), spec.symbols);
    return spec;
}

struct Code {
    std::uint32_t bits = 0;
    int length = 0;
};

// Codes by symbol, assigned as in T.81 annex C.
std::vector<Code> codes_of(const HuffmanSpec& spec) {
    std::vector<Code> codes(256);
    std::uint32_t code = 0;
    int index = 0;
    for (int length = 1; length <= 16; ++length, code <<= 1) {
        for (int i = 0; i < spec.code_counts[length - 1]; ++i) codes[spec.symbols[index++]] = {code++, length};
    }
    return codes;
}

// A valid random table over all symbols of `symbols`, in random order.
HuffmanSpec random_spec(std::vector<std::uint8_t> symbols, std::mt19937& random) {
    std::shuffle(symbols.begin(), symbols.end(), random);
    while (true) {
        std::vector<std::pair<int, int>> counts;
        std::size_t left = symbols.size();
        std::uint32_t free_codes = 1;
        for (int length = 1; length <= 16; ++length) {
            free_codes *= 2;
            if (left == 0) continue;
            const std::uint32_t most = std::min<std::uint32_t>(free_codes - 1, static_cast<std::uint32_t>(left));
            const std::uint32_t count =
                length == 16 ? most : static_cast<std::uint32_t>(random() % (most / (1 + random() % 4) + 1));
            counts.emplace_back(length, static_cast<int>(std::min<std::uint32_t>(count, 255)));
            free_codes -= std::min<std::uint32_t>(count, 255);
            left -= std::min<std::uint32_t>(count, 255);
        }
        if (left == 0) return spec_of(counts, symbols);
    }
}

std::vector<std::uint8_t> all_ac_symbols() {
    std::vector<std::uint8_t> symbols = {0x00, 0xF0};
    for (int run = 0; run < 16; ++run) {
        for (int size = 1; size <= kMaxAcSize; ++size) symbols.push_back(static_cast<std::uint8_t>(run << 4 | size));
    }
    return symbols;
}

std::vector<std::uint8_t> all_dc_symbols() {
    std::vector<std::uint8_t> symbols;
    for (int size = 0; size <= kMaxDcSize; ++size) symbols.push_back(static_cast<std::uint8_t>(size));
    return symbols;
}

class BitWriter {
  public:
    void put(std::uint32_t bits, int length) {
        for (int i = length - 1; i >= 0; --i) {
            if (used_ % 8 == 0) bytes_.push_back(0);
            bytes_.back() = static_cast<std::uint8_t>(bytes_.back() | (bits >> i & 1U) << (7 - used_ % 8));
            ++used_;
        }
    }
    void put_value(const Code& code, int value, int size) {
        put(code.bits, code.length);
        put(static_cast<std::uint32_t>(value < 0 ? value + (1 << size) - 1 : value), size);
    }
    // The data with the padding that readers need.
    std::vector<std::uint8_t> padded() const {
        std::vector<std::uint8_t> bytes = bytes_;
        bytes.resize(bytes.size() + kReaderPaddingBytes);
        return bytes;
    }
    std::size_t size() const { return bytes_.size(); }

  private:
    std::vector<std::uint8_t> bytes_;
    unsigned used_ = 0;
};

int size_of(int value) {
    int size = 0;
    for (int magnitude = std::abs(value); magnitude != 0; magnitude >>= 1) ++size;
    return size;
}

using Block = std::vector<int>;

void write_block(const Block& block, int prediction, const std::vector<Code>& dc, const std::vector<Code>& ac,
                 BitWriter* writer) {
    const int difference = block[0] - prediction;
    writer->put_value(dc[static_cast<std::size_t>(size_of(difference))], difference, size_of(difference));
    int run = 0;
    for (int k = 1; k < 64; ++k) {
        const int value = block[static_cast<std::size_t>(k)];
        if (value == 0) {
            ++run;
            continue;
        }
        for (; run > 15; run -= 16) writer->put_value(ac[0xF0], 0, 0);
        const int size = size_of(value);
        writer->put_value(ac[static_cast<std::size_t>(run << 4 | size)], value, size);
        run = 0;
    }
    if (run > 0) writer->put_value(ac[0x00], 0, 0);
}

// Replaces the inverse DCT and keeps its input. Blocks with only a DC coefficient do not reach it.
std::vector<Block> captured_blocks;
void capture(std::int16_t* coefficients, const std::uint16_t*, std::uint8_t*) noexcept {
    captured_blocks.emplace_back(coefficients, coefficients + 64);
    std::fill_n(coefficients, 64, std::int16_t{0});
}

// The table with capture() instead of the inverse DCT.
KernelTable capturing(KernelTable kernels) {
    kernels.inverse_dct = capture;
    return kernels;
}

void check_round_trip(const std::vector<Block>& blocks, const HuffmanSpec& dc_spec, const HuffmanSpec& ac_spec) {
    const auto dc = std::make_unique<DcTable>();
    const auto ac = std::make_unique<AcTable>();
    CHECK(dc->build(dc_spec));
    CHECK(ac->build(ac_spec));
    const std::vector<Code> dc_codes = codes_of(dc_spec);
    const std::vector<Code> ac_codes = codes_of(ac_spec);
    BitWriter writer;
    int prediction = 0;
    for (const Block& block : blocks) {
        write_block(block, prediction, dc_codes, ac_codes, &writer);
        prediction = block[0];
    }
    const std::vector<std::uint8_t> data = writer.padded();
    const std::uint16_t quantization[64] = {};
    std::uint8_t output[64];
    const auto check = [&](const KernelTable& kernels, bool is_kept) {
        EntropyScan scan;
        scan.begin({data.data(), writer.size(), {}}, static_cast<std::uint32_t>(blocks.size()), 0, kernels, 0);
        ScanBlock plan;
        plan.dc = dc.get();
        plan.ac = ac.get();
        plan.quantization = quantization;
        plan.output = output;
        scan.add_block(plan);
        captured_blocks.clear();
        const auto count = static_cast<std::uint32_t>(blocks.size());
        CHECK((is_kept ? scan.decode(count) : scan.walk(count)).is_ok());
        CHECK(scan.finish().is_ok());
        if (is_kept) CHECK(captured_blocks == blocks);
    };
    for_each_kernel_table([&](const KernelTable& kernels) {
        check(capturing(kernels), true);
        check(capturing(kernels), false);
    });
}

Block random_block(std::mt19937& random, unsigned density) {
    Block block(64);
    block[0] = static_cast<int>(random() % 2000) - 1000;
    for (std::size_t k = 1; k < 64; ++k) {
        if (random() % 64 >= density) continue;
        const int size = 1 + static_cast<int>(random() % kMaxAcSize);
        const int magnitude = (1 << (size - 1)) + static_cast<int>(random() % (1U << (size - 1)));
        block[k] = random() % 2 == 0 ? magnitude : -magnitude;
    }
    if (std::all_of(block.begin() + 1, block.end(), [](int v) { return v == 0; })) block[1] = 1;
    return block;
}

}  // namespace

TEST_CASE(huffman_code_finds_exactly_the_symbols_of_its_table) {
    std::mt19937 random(1);
    // As many codes of each length as in T.81 table K.5: the codes of more than 9 bits are few values.
    std::vector<HuffmanSpec> specs = {spec_of(
        {{2, 2}, {3, 1}, {4, 3}, {5, 3}, {6, 2}, {7, 4}, {8, 3}, {9, 5}, {10, 5}, {11, 4}, {12, 4}, {15, 1}, {16, 125}},
        all_ac_symbols())};
    for (int round = 0; round < 20; ++round) specs.push_back(random_spec(all_ac_symbols(), random));
    for (const HuffmanSpec& spec : specs) {
        const std::vector<Code> codes = codes_of(spec);
        CanonicalCode code;
        CHECK(code.build(spec));
        for (std::uint32_t window = 0; window < 0x10000; ++window) {
            const Symbol found = code.find(std::uint64_t{window} << 48 | 0xFFFF);
            if (found.length == 0) continue;
            const Code& expected = codes[found.value];
            CHECK_EQUAL(static_cast<int>(found.length), expected.length);
            CHECK_EQUAL(window >> (16 - expected.length), expected.bits);
        }
        for (const std::uint8_t symbol : all_ac_symbols()) {
            const Code& expected = codes[symbol];
            const Symbol found = code.find(std::uint64_t{expected.bits} << (64 - expected.length));
            CHECK_EQUAL(found.value, symbol);
        }
    }
}

TEST_CASE(huffman_code_refuses_lengths_that_make_no_prefix_code) {
    CanonicalCode code;
    CHECK(!code.build(spec_of({{1, 3}}, {1, 2, 3})));          // more codes than bits
    CHECK(!code.build(spec_of({{1, 2}}, {1, 2})));             // uses the all-ones code
    CHECK(!code.build(spec_of({{1, 1}, {2, 2}}, {1, 2, 3})));  // the same, one level down
    CHECK(!code.build(spec_of({{1, 1}, {2, 1}, {3, 2}}, {1, 2, 3, 4})));
    CHECK(!code.build(spec_of({}, {})));  // nothing at all
    CHECK(code.build(spec_of({{1, 1}, {2, 1}, {3, 1}}, {1, 2, 3})));
    CHECK_EQUAL(static_cast<int>(code.find(~std::uint64_t{0}).length), 0);
}

TEST_CASE(huffman_tables_refuse_magnitudes_beyond_8_bit_samples) {
    const auto dc = std::make_unique<DcTable>();
    const auto ac = std::make_unique<AcTable>();
    CHECK(dc->build(spec_of({{1, 1}, {2, 1}}, {0, 11})));
    CHECK(!dc->build(spec_of({{1, 1}, {2, 1}}, {0, 12})));
    CHECK(ac->build(spec_of({{1, 1}, {2, 1}}, {0, 0xFA})));
    CHECK(!ac->build(spec_of({{1, 1}, {2, 1}}, {0, 0x0B})));
    CHECK(!ac->build(spec_of({{1, 1}, {2, 1}}, {0, 0x30})));
}

TEST_CASE(huffman_steps_stay_within_their_bit_budget) {
    std::mt19937 random(3);
    const auto table = std::make_unique<AcTable>();
    for (int round = 0; round < 50; ++round) {
        CHECK(table->build(random_spec(all_ac_symbols(), random)));
        for (const AcStep& step : table->steps) {
            CHECK(step.total_bits <= kMaxStepBits);
            CHECK((step.total_bits == 0) == (step.advance == kUnknownCode));
            CHECK(step.tail_position == kNoTailPosition || step.tail_position < kPatternSlots + 16);
            CHECK(step.tail_position == kNoTailPosition || step.tail_shift >= 64 - kMaxAcSize);
        }
    }
    // See Note [bits between refills]: the bits after a refill, and the index before the next one.
    CHECK(2 * kMaxStepBits + kLookupBits <= 56);
    CHECK(kMaxStepBits + 16 + kMaxAcSize + kLookupBits <= 56);
    CHECK(16 + kMaxDcSize + kLookupBits <= 56);
}

TEST_CASE(entropy_round_trip_of_random_blocks_and_tables) {
    std::mt19937 random(5);
    for (int round = 0; round < 60; ++round) {
        const HuffmanSpec dc = random_spec(all_dc_symbols(), random);
        const HuffmanSpec ac = random_spec(all_ac_symbols(), random);
        std::vector<Block> blocks;
        const auto density = static_cast<unsigned>(1 + random() % 64);
        for (int i = 0; i < 60; ++i) blocks.push_back(random_block(random, density));
        check_round_trip(blocks, dc, ac);
    }
}

TEST_CASE(entropy_round_trip_of_the_longest_codes_and_magnitudes) {
    std::mt19937 random(6);
    // All codes have 16 bits; every coefficient has the largest magnitude.
    const HuffmanSpec dc = spec_of({{16, 12}}, all_dc_symbols());
    const HuffmanSpec ac = spec_of({{16, 162}}, all_ac_symbols());
    std::vector<Block> blocks;
    for (int i = 0; i < 50; ++i) {
        Block block(64);
        for (std::size_t k = 0; k < 64; ++k)
            block[k] = random() % 2 == 0 ? 1023 : -1023 + static_cast<int>(random() % 500);
        block[0] = i % 2 == 0 ? 1023 : -1023;
        blocks.push_back(block);
    }
    check_round_trip(blocks, dc, ac);
}

TEST_CASE(entropy_round_trip_of_blocks_that_end_at_63_in_the_middle_of_a_step) {
    std::mt19937 random(7);
    // Short codes, so that a step holds the end of one block and the start of the next.
    const HuffmanSpec dc = spec_of({{1, 1}, {2, 1}, {3, 1}}, {0, 1, 2});
    const HuffmanSpec ac = spec_of({{1, 1}, {2, 1}, {3, 1}, {4, 1}}, {0x01, 0x00, 0x11, 0xF1});
    std::vector<Block> blocks;
    for (int i = 0; i < 200; ++i) {
        Block block(64);
        block[0] = i % 2;
        std::size_t k = 1;
        while (k < 64) {
            const auto kind = static_cast<unsigned>(random() % 12);
            if (kind == 0 && k > 40) break;
            if (kind == 1) k += 1;
            if (kind == 2 && k + 16 < 64) k += 15;
            if (k < 64) block[k++] = random() % 2 == 0 ? 1 : -1;
        }
        if (block[62] == 0 && block[63] != 0) block[62] = 1;
        blocks.push_back(block);
    }
    check_round_trip(blocks, dc, ac);
}

// About every third block has only a DC coefficient. The scan is decoded in runs of one to nine blocks, each time after
// a run that ends with an error somewhere else.
TEST_CASE(entropy_samples_reach_their_places_for_any_runs_and_any_scan_before) {
    std::mt19937 random(8);
    const HuffmanSpec dc_spec = random_spec(all_dc_symbols(), random);
    const HuffmanSpec ac_spec = random_spec(all_ac_symbols(), random);
    const auto dc = std::make_unique<DcTable>();
    const auto ac = std::make_unique<AcTable>();
    CHECK(dc->build(dc_spec) && ac->build(ac_spec));
    alignas(64) std::uint16_t quantization[64];
    for (std::uint16_t& entry : quantization) entry = static_cast<std::uint16_t>(1 + random() % 9);
    std::vector<Block> blocks;
    BitWriter writer;
    for (int i = 0; i < 300; ++i) {
        blocks.push_back(random() % 3 == 0 ? Block(64) : random_block(random, 20));
        blocks.back()[0] = static_cast<int>(random() % 1000) - 500;
        write_block(blocks.back(), i == 0 ? 0 : blocks[blocks.size() - 2][0], codes_of(dc_spec), codes_of(ac_spec),
                    &writer);
    }
    const std::vector<std::uint8_t> data = writer.padded();

    std::vector<std::uint8_t> expected;
    for (const Block& block : blocks) {
        alignas(64) std::int16_t coefficients[64];
        alignas(64) std::uint8_t samples[64];
        std::copy(block.begin(), block.end(), coefficients);
        inverse_dct_scalar(coefficients, quantization, samples);
        expected.insert(expected.end(), samples, samples + 64);
    }
    const auto count = static_cast<std::uint32_t>(blocks.size());
    for_each_kernel_table([&](const KernelTable& kernels) {
        AlignedBuffer output;
        CHECK(output.reserve(expected.size()).is_ok());
        EntropyScan scan;
        const auto begin = [&](const std::vector<std::uint8_t>& bytes) {
            scan.begin({bytes.data(), writer.size(), {}}, count, 0, kernels, 0);
            scan.add_block({dc.get(), ac.get(), quantization, 0, output.data(), 64});
        };
        for (std::size_t damage = 1; damage < 10; ++damage) {
            std::vector<std::uint8_t> damaged = data;
            const std::size_t offset = writer.size() * damage / 10;
            std::fill_n(damaged.begin() + static_cast<std::ptrdiff_t>(offset), 64, std::uint8_t{0xFF});
            begin(damaged);
            CHECK(!scan.decode(count).is_ok());
            begin(data);
            for (std::uint32_t done = 0; done < count;) {
                const auto part = std::min(1 + static_cast<std::uint32_t>(random() % 9), count - done);
                scan.blocks()[0].output = output.data() + std::size_t{done} * 64;
                CHECK(scan.decode(part).is_ok());
                done += part;
            }
            CHECK(scan.finish().is_ok());
            CHECK(std::equal(expected.begin(), expected.end(), output.data()));
        }
    });
}

TEST_CASE(entropy_scan_refuses_bad_segments) {
    const auto dc = std::make_unique<DcTable>();
    const auto ac = std::make_unique<AcTable>();
    CHECK(dc->build(spec_of({{1, 1}}, {0})));
    CHECK(ac->build(spec_of({{2, 2}}, {0x00, 0xF1})));
    const auto decode = [&](const KernelTable& kernels, std::vector<std::uint8_t> data, std::uint32_t blocks) {
        const std::size_t size = data.size();
        data.resize(size + kReaderPaddingBytes);
        const std::uint16_t quantization[64] = {};
        std::uint8_t output[64];
        EntropyScan scan;
        scan.begin({data.data(), size, {}}, blocks, 0, kernels, 0);
        scan.add_block({dc.get(), ac.get(), quantization, 0, output, 0});
        const Status status = scan.decode(blocks);
        return status.is_ok() ? scan.finish() : status;
    };
    for_each_kernel_table([&](const KernelTable& table) {
        const KernelTable kernels = capturing(table);
        // A block is 0 00; two of them are 6 bits.
        CHECK(decode(kernels, {0x03}, 2).is_ok());
        CHECK(!decode(kernels, {0x03, 0x00}, 2).is_ok());  // a byte too many
        CHECK(!decode(kernels, {0x00}, 3).is_ok());        // 9 bits in 8
        CHECK(!decode(kernels, {}, 3).is_ok());
        CHECK(!decode(kernels, {0x60}, 1).is_ok());  // 0 11: no such code
        CHECK(!decode(kernels, {0x80}, 1).is_ok());  // 1: no such DC code
        CHECK(!decode(kernels, {0x2D, 0xB6, 0xDB, 0xFF}, 1)
                   .is_ok());                             // run 15, size 1, again and again: past coefficient 63
        CHECK(!decode(kernels, {0x00}, 100000).is_ok());  // ends long before the last block, and stops soon
    });
}

TEST_CASE(band_table_finds_every_symbol_by_lookup_or_canonically) {
    std::mt19937 random(5);
    std::vector<std::uint8_t> symbols;
    for (int run = 0; run < 16; ++run) {
        for (int size = 0; size <= kMaxAcSize; ++size) symbols.push_back(static_cast<std::uint8_t>(run << 4 | size));
    }
    const auto table = std::make_unique<BandTable>();
    for (int round = 0; round < 20; ++round) {
        const HuffmanSpec spec = random_spec(symbols, random);
        CHECK(table->build(spec));
        CHECK_EQUAL(table->largest_size, kMaxAcSize);
        const std::vector<Code> codes = codes_of(spec);
        for (const std::uint8_t symbol : symbols) {
            const Code& code = codes[symbol];
            const std::uint64_t bits = static_cast<std::uint64_t>(code.bits) << (64 - code.length);
            const BandSymbol found = table->find(bits);
            const int run = symbol >> 4;
            const int size = symbol & 15;
            CHECK_EQUAL(static_cast<int>(found.run), run);
            CHECK_EQUAL(static_cast<int>(found.size), size);
            CHECK_EQUAL(static_cast<int>(found.code_bits), code.length);
            const int extra = size != 0 ? size : run == 15 ? 0 : run;
            CHECK_EQUAL(static_cast<int>(found.total_bits), code.length + extra);
            const BandSymbol& looked_up = table->lookup[bits >> (64 - kLookupBits)];
            CHECK_EQUAL(static_cast<int>(looked_up.total_bits), code.length > kLookupBits ? 0 : code.length + extra);
        }
    }
}

TEST_CASE(band_table_takes_runs_of_blocks_and_refuses_large_sizes) {
    const auto table = std::make_unique<BandTable>();
    CHECK(table->build(spec_of({{1, 1}}, {0xE0})));
    CHECK_EQUAL(static_cast<int>(table->find(0).total_bits), 1 + 14);
    CHECK_EQUAL(static_cast<int>(table->find(~std::uint64_t{0}).total_bits), 0);
    CHECK(!table->build(spec_of({{1, 1}}, {0x0B})));
    CHECK(!table->build(spec_of({{1, 2}}, {0x01, 0x02})));  // uses the all-ones code
}

}  // namespace fastload::jpeg
